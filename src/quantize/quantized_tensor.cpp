#include <utility>

#include <tape8/quantize/quantized_tensor.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"

namespace tape8 {

QuantizedTensor::QuantizedTensor(Tensor tensor) {
  part_.dq_dtype = tensor.dtype();
  part_.data = std::move(tensor);
}

QuantizedTensor::QuantizedTensor(QuantizedPart both) : part_(std::move(both)) {
  if (part_.scaling_mode == ScalingMode::none) return;
  const Tensor& scale_inv = part_.scale_inv;
  if (!is_fp8(part_.data.dtype()) || !is_compute(part_.dq_dtype)) {
    fail<DTypeError>(
        "quantized_tensor: data must be e4m3 or e5m2 and dq_dtype a float: got {} and {}",
        to_string(part_.data.dtype()), to_string(part_.dq_dtype));
  }
  if (!scale_inv.defined() || scale_inv.dtype() != DType::f32 || scale_inv.numel() != 1) {
    fail<ShapeError>("quantized_tensor: scale_inv must be one f32 for per_tensor: got {} of {}",
                     scale_inv.defined() ? to_string(scale_inv.shape()) : "none",
                     to_string(scale_inv.dtype()));
  }
}

const QuantizedPart& QuantizedTensor::operand(Usage /*usage: one buffer serves both*/) const {
  if (!defined()) fail<StateError>("quantized_tensor: must hold a tensor: got none");
  return part_;
}

Tensor QuantizedTensor::dequantize() const {
  const QuantizedPart& part = rowwise();
  if (!is_quantized()) return part.data;
  Tensor result = Tensor::empty(shape(), part.dq_dtype, part.data.device());
  backend(part.data.device())
      .cast({.rows = 1,
             .cols = result.numel(),
             .x = {.data = part.data.data(),
                   .dtype = part.data.dtype(),
                   .scale_inv = static_cast<const ScaleInv*>(part.scale_inv.data())},
             .y = {.data = result.mutable_data(), .dtype = part.dq_dtype}});
  return result;
}

}  // namespace tape8
