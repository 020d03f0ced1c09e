#include "quantize/cast.hpp"

#include <utility>

#include "quantize/amax_notes.hpp"

namespace tape8 {
namespace {

bool is_delayed(const Quantizer& quantizer) {
  return quantizer && std::holds_alternative<DelayedScaling>(quantizer.recipe());
}

/// Whether the kernel that computes values can cast them with block scales.
bool casts_blocks_at_once(const Quantizer& quantizer) {
  return quantizer && is_block_scaled(quantizer.state()->scaling_mode()) &&
         !is_nvfp4(quantizer.state()->scaling_mode());
}

Amax* amax_in(Tensor& amax) { return static_cast<Amax*>(amax.mutable_data()); }

const Scale* scale_in(const Scales& scales) {
  return static_cast<const Scale*>(scales.scale.data());
}

/// The values of one call of cast_tensor().
struct Source {
  const Tensor& values;
  MatrixShape matrix;
  Stat* dbias;

  /// One pass of the cast kernel.
  void pass(const Output& y, bool sums = false, Amax* hadamard_amax = nullptr) const {
    const bool flat = y.blocks == nullptr && hadamard_amax == nullptr && (!sums || !dbias);
    backend(values.device())
        .cast({.rows = flat ? 1 : matrix.rows,
               .cols = flat ? values.numel() : matrix.cols,
               .x = {.data = values.data(), .dtype = values.dtype()},
               .y = y,
               .dbias = sums ? dbias : nullptr,
               .hadamard_amax = hadamard_amax});
  }
};

CastTensor convert(const Source& source, DType dtype) {
  if (source.values.dtype() == dtype) {
    if (source.dbias != nullptr) source.pass({}, true);
    return {QuantizedTensor(source.values), {}};
  }
  Tensor converted = Tensor::empty(source.values.shape(), dtype, source.values.device());
  source.pass({.data = converted.mutable_data(), .dtype = dtype}, true);
  return {QuantizedTensor(std::move(converted)), {}};
}

/// Amax first, then the cast with the scale made of it.
CastTensor cast_current(const Source& source, const Quantizer& quantizer, DType dtype) {
  const Tensor& values = source.values;
  Tensor amax = Tensor::empty({}, DType::f32, values.device());
  source.pass({.dtype = values.dtype(), .amax = amax_in(amax)}, true);
  const Scales scales =
      current_scales(std::get<CurrentScaling>(quantizer.recipe()), amax, quantizer.dtype());
  QuantizedPart part{.data = Tensor::empty(values.shape(), quantizer.dtype(), values.device()),
                     .scale_inv = scales.scale_inv,
                     .scaling_mode = ScalingMode::per_tensor,
                     .dq_dtype = dtype};
  source.pass(
      {.data = part.data.mutable_data(), .dtype = part.data.dtype(), .scale = scale_in(scales)});
  return {QuantizedTensor(std::move(part)), {}};
}

/// NVFP4: likewise amax first, of the values and of what the Hadamard transform makes of them.
CastTensor cast_nvfp4(const Source& source, const Quantizer& quantizer, DType dtype,
                      const CastRequest& request) {
  const Tensor& values = source.values;
  BlockCast blocks(quantizer, values.shape(), dtype, request, values.device());
  source.pass({.dtype = values.dtype(), .amax = blocks.amax()}, true, blocks.hadamard_amax());
  source.pass({.blocks = &blocks.output()});
  return {blocks.finish(), {}};
}

/// A cast whose scale follows from all of the values.
CastTensor cast_in_two_passes(const Source& source, const Quantizer& quantizer, DType dtype,
                              const CastRequest& request) {
  return is_nvfp4(quantizer.state()->scaling_mode()) ? cast_nvfp4(source, quantizer, dtype, request)
                                                     : cast_current(source, quantizer, dtype);
}

}  // namespace

bool notes_casts(const Quantizer& quantizer) {
  return is_delayed(quantizer) && AmaxNotes::current() != nullptr;
}

void note_cast(const Quantizer& quantizer, const Tensor& amax) {
  if (notes_casts(quantizer)) AmaxNotes::current()->note(quantizer.state(), amax);
}

CastTensor cast_tensor(const Tensor& values, const Quantizer& quantizer, DType dtype,
                       const CastRequest& request, Stat* dbias) {
  // Block scales are made from f32: parameters in f64 are used in f32.
  const bool narrows = quantizer && values.dtype() == DType::f64 &&
                       is_block_scaled(quantizer.state()->scaling_mode());
  const Tensor dense = (narrows ? converted(values, DType::f32) : values).contiguous();
  const Source source{dense, matrix_shape(dense.shape(), request.flatten_axis), dbias};
  if (!quantizer) return convert(source, dtype);
  if (is_delayed(quantizer) || casts_blocks_at_once(quantizer)) {
    CastTarget target(quantizer, dense.shape(), dtype, dense.device(), request);
    source.pass(target.output(), true);
    QuantizedTensor tensor = target.finish();
    return {std::move(tensor), target.amax()};
  }
  return cast_in_two_passes(source, quantizer, dtype, request);
}

Tensor converted(const Tensor& tensor, DType dtype) {
  if (!tensor.defined() || tensor.dtype() == dtype) return tensor;
  return cast_tensor(tensor, {}, dtype).tensor.rowwise().data;
}

CastTarget::CastTarget(const Quantizer& quantizer, const Shape& shape, DType dtype,
                       const Device& device, const CastRequest& request)
    : CastTarget({quantizer, request,
                  is_delayed(quantizer) ? quantizer.state()->scales(device) : Scales{}},
                 shape, dtype, device) {
  // Nothing is noted of a cast without elements.
  if (notes_casts(quantizer) && shape.numel() > 0) amax_ = Tensor::empty({}, DType::f32, device);
}

CastTarget::CastTarget(const CastReplay& replay, const Shape& shape, DType dtype,
                       const Device& device)
    : replay_(replay) {
  const Quantizer& quantizer = replay.quantizer;
  if (casts_blocks_at_once(quantizer)) {
    blocks_.emplace(quantizer, shape, dtype, replay.request, device);
    return;
  }
  part_.dq_dtype = dtype;
  if (delayed()) {
    part_.scale_inv = replay.scales.scale_inv;
    part_.scaling_mode = ScalingMode::per_tensor;
  }
  part_.data = Tensor::empty(shape, delayed() ? quantizer.dtype() : dtype, device);
}

Output CastTarget::output() {
  if (blocks_) return {.blocks = &blocks_->output()};
  Output output{.data = part_.data.mutable_data(), .dtype = part_.data.dtype()};
  if (delayed()) {
    output.scale = scale_in(replay_.scales);
    output.amax = amax_in(amax_);
  }
  return output;
}

QuantizedTensor CastTarget::finish() {
  if (blocks_) return blocks_->finish();
  const Quantizer& quantizer = replay_.quantizer;
  if (!quantizer) return QuantizedTensor(std::move(part_));
  if (delayed()) {
    if (amax_.defined()) note_cast(quantizer, amax_);
    return QuantizedTensor(std::move(part_));
  }
  const Tensor& values = part_.data;
  const CastRequest& request = replay_.request;
  const Source source{values, matrix_shape(values.shape(), request.flatten_axis), nullptr};
  return cast_in_two_passes(source, quantizer, part_.dq_dtype, request).tensor;
}

}  // namespace tape8
