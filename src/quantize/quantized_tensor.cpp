#include <utility>

#include <tape8/quantize/quantized_tensor.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "quantize/block_cast.hpp"

namespace tape8 {
namespace {

bool is_allowed(DType data, ScalingMode mode) {
  return is_nvfp4(mode) ? data == DType::e2m1 : is_fp8(data);
}

void check_form(const char* name, const Tensor& tensor, DType dtype, const Shape& shape) {
  const bool defined = tensor.defined();
  if (defined && tensor.dtype() == dtype && tensor.shape() == shape) return;
  fail<ShapeError>("quantized_tensor: {} must be {} of the shape {}: got {} {}", name,
                   to_string(dtype), to_string(shape), defined ? to_string(tensor.dtype()) : "none",
                   defined ? to_string(tensor.shape()) : "");
}

void check_dtypes(const QuantizedPart& part) {
  const bool narrow = part.dq_dtype != DType::f64 || !is_block_scaled(part.scaling_mode);
  if (!is_allowed(part.data.dtype(), part.scaling_mode) || !is_compute(part.dq_dtype) || !narrow) {
    fail<DTypeError>(
        "quantized_tensor: data must be {} for {} and dq_dtype f32, bf16 or f16: got {} and {}",
        is_nvfp4(part.scaling_mode) ? "e2m1" : "e4m3 or e5m2", to_string(part.scaling_mode),
        to_string(part.data.dtype()), to_string(part.dq_dtype));
  }
}

void check_blocks(const QuantizedPart& part, Usage usage, const Shape& shape, MatrixShape matrix) {
  if (!part.data.defined()) return;
  const ScalingMode mode = part.scaling_mode;
  if (!is_block_scaled(mode)) {
    fail<OptionError>("quantized_tensor: a part for one usage must have block scales: got {}",
                      to_string(mode));
  }
  check_dtypes(part);
  const BlockCastShapes wanted = block_cast_shapes(mode, usage, shape, matrix);
  check_form("data", part.data, part.data.dtype(), wanted.data);
  check_form("scale_inv", part.scale_inv, scale_dtype(mode), wanted.scale_inv);
  if (is_nvfp4(mode)) check_form("tensor_scale_inv", part.tensor_scale_inv, DType::f32, {});
  if (!is_nvfp4(mode) && part.tensor_scale_inv.defined()) {
    fail<OptionError>("quantized_tensor: tensor_scale_inv must be none for {}: got one",
                      to_string(mode));
  }
  if (part.hadamard && (mode != ScalingMode::nvfp4_1d || usage != Usage::columnwise)) {
    fail<OptionError>("quantized_tensor: hadamard must be of a columnwise nvfp4_1d cast: got {}",
                      to_string(mode));
  }
}

}  // namespace

MatrixShape matrix_shape(const Shape& shape, int flatten_axis) {
  const int rank = shape.rank();
  if (rank == 0 && flatten_axis == -1) return {1, 1};
  const int axis = flatten_axis < 0 ? flatten_axis + rank : flatten_axis;
  if (axis < 0 || axis > rank) {
    fail<ShapeError>("matrix_shape: flatten_axis must lie within the {} dimensions: got {}", rank,
                     flatten_axis);
  }
  return {shape.numel(0, axis), shape.numel(axis, rank)};
}

QuantizedTensor::QuantizedTensor(Tensor tensor) : shape_(tensor.shape()) {
  const DType dtype = tensor.dtype();
  parts_[0] = {.data = std::move(tensor), .dq_dtype = dtype};
  parts_[1] = parts_[0];
}

QuantizedTensor::QuantizedTensor(QuantizedPart both) : shape_(both.data.shape()) {
  if (is_block_scaled(both.scaling_mode)) {
    fail<OptionError>("quantized_tensor: one part for both usages must be per_tensor: got {}",
                      to_string(both.scaling_mode));
  }
  if (both.scaling_mode == ScalingMode::per_tensor) {
    check_dtypes(both);
    const Tensor& scale_inv = both.scale_inv;
    if (!scale_inv.defined() || scale_inv.dtype() != DType::f32 || scale_inv.numel() != 1) {
      fail<ShapeError>("quantized_tensor: scale_inv must be one f32 for per_tensor: got {} of {}",
                       scale_inv.defined() ? to_string(scale_inv.shape()) : "none",
                       to_string(scale_inv.dtype()));
    }
  }
  parts_[0] = std::move(both);
  parts_[1] = parts_[0];
}

QuantizedTensor::QuantizedTensor(const Shape& shape, int flatten_axis, QuantizedPart rowwise,
                                 QuantizedPart columnwise)
    : shape_(shape), flatten_axis_(flatten_axis) {
  const MatrixShape matrix = matrix_shape(shape, flatten_axis);
  check_blocks(rowwise, Usage::rowwise, shape, matrix);
  check_blocks(columnwise, Usage::columnwise, shape, matrix);
  if (rowwise.data.defined() && columnwise.data.defined() &&
      rowwise.scaling_mode != columnwise.scaling_mode) {
    fail<OptionError>("quantized_tensor: both parts must have one scaling mode: got {} and {}",
                      to_string(rowwise.scaling_mode), to_string(columnwise.scaling_mode));
  }
  parts_ = {std::move(rowwise), std::move(columnwise)};
}

bool QuantizedTensor::is_quantized() const {
  return part(Usage::rowwise).scaling_mode != ScalingMode::none ||
         part(Usage::columnwise).scaling_mode != ScalingMode::none;
}

const QuantizedPart& QuantizedTensor::operand(Usage usage) const {
  if (!defined()) fail<StateError>("quantized_tensor: must hold a tensor: got none");
  if (!has(usage)) {
    const bool rowwise = usage == Usage::rowwise;
    fail<StateError>("quantized_tensor: must hold a {} cast: got a {} one",
                     rowwise ? "rowwise" : "columnwise", rowwise ? "columnwise" : "rowwise");
  }
  return part(usage);
}

QuantizedTensor QuantizedTensor::only(Usage usage) const {
  QuantizedTensor kept = *this;
  const auto other =
      static_cast<std::size_t>(usage == Usage::rowwise ? Usage::columnwise : Usage::rowwise);
  if (is_block_scaled(kept.parts_[other].scaling_mode)) kept.parts_[other] = {};
  return kept;
}

Tensor QuantizedTensor::dequantize() const {
  const Usage usage = has(Usage::rowwise) || !defined() ? Usage::rowwise : Usage::columnwise;
  const QuantizedPart& source = operand(usage);
  if (source.scaling_mode == ScalingMode::none) return source.data;
  const MatrixShape matrix = matrix_shape(shape_, flatten_axis_);
  const bool in_blocks = is_block_scaled(source.scaling_mode);
  const BlockInput blocks{.scaling_mode = source.scaling_mode,
                          .usage = usage,
                          .scale_inv = source.scale_inv.data(),
                          .hadamard = source.hadamard};
  const Tensor& tensor_scale = in_blocks ? source.tensor_scale_inv : source.scale_inv;
  Tensor result = Tensor::empty(shape_, source.dq_dtype, source.data.device());
  backend(source.data.device())
      .cast({.rows = matrix.rows,
             .cols = matrix.cols,
             .x = {.data = source.data.data(),
                   .dtype = source.data.dtype(),
                   .scale_inv = static_cast<const ScaleInv*>(tensor_scale.data()),
                   .blocks = in_blocks ? &blocks : nullptr},
             .y = {.data = result.mutable_data(), .dtype = source.dq_dtype}});
  return result;
}

}  // namespace tape8
