#include "quantize/cast.hpp"

#include <utility>

#include "quantize/amax_notes.hpp"
#include "quantize/quantizer_state.hpp"

namespace tape8 {
namespace {

bool casts_in_one_pass(const Quantizer& quantizer) {
  return quantizer && std::holds_alternative<DelayedScaling>(quantizer.recipe());
}

void note(const Quantizer& quantizer, Amax amax, std::int64_t elements) {
  AmaxNotes* notes = AmaxNotes::current();
  if (notes != nullptr && elements > 0) notes->note(quantizer.state(), amax);
}

/// One call of the cast kernel over a whole tensor.
void run_cast(const Tensor& values, const Output& y, const DbiasSum& sum) {
  const bool as_matrix = sum.dbias != nullptr;
  backend(values.device())
      .cast({.rows = as_matrix ? sum.rows : 1,
             .cols = as_matrix ? sum.cols : values.numel(),
             .x = {.data = values.data(), .dtype = values.dtype()},
             .y = y,
             .dbias = sum.dbias});
}

CastTensor convert(const Tensor& values, DType dtype, const DbiasSum& sum) {
  if (values.dtype() == dtype) {
    if (sum.dbias != nullptr) run_cast(values, {}, sum);
    return {QuantizedTensor(values), {}};
  }
  Tensor converted = Tensor::empty(values.shape(), dtype, values.device());
  run_cast(values, {.data = converted.mutable_data(), .dtype = dtype}, sum);
  return {QuantizedTensor(std::move(converted)), {}};
}

/// Amax first, then the cast with the scale made of it.
CastTensor cast_current(const Tensor& values, const Quantizer& quantizer, DType dtype,
                        const DbiasSum& sum) {
  Amax amax;
  run_cast(values, {.dtype = values.dtype(), .amax = &amax}, sum);
  const Scale scale =
      current_scale(std::get<CurrentScaling>(quantizer.recipe()), amax, quantizer.dtype());
  QuantizedPart part{.data = Tensor::empty(values.shape(), quantizer.dtype(), values.device()),
                     .scale_inv = Tensor::from({inverse(scale).value}, {}),
                     .scaling_mode = ScalingMode::per_tensor,
                     .dq_dtype = dtype};
  run_cast(values, {.data = part.data.mutable_data(), .dtype = part.data.dtype(), .scale = &scale},
           {});
  note(quantizer, amax, values.numel());
  return {QuantizedTensor(std::move(part)), amax};
}

}  // namespace

CastTensor cast_tensor(const Tensor& values, const Quantizer& quantizer, DType dtype,
                       const DbiasSum& sum) {
  const Tensor dense = values.contiguous();
  if (!quantizer) return convert(dense, dtype, sum);
  if (!casts_in_one_pass(quantizer)) return cast_current(dense, quantizer, dtype, sum);
  CastTarget target(quantizer, dense.shape(), dtype, dense.device());
  run_cast(dense, target.output(), sum);
  QuantizedTensor tensor = target.finish();
  return {std::move(tensor), target.amax()};
}

CastTarget::CastTarget(const Quantizer& quantizer, const Shape& shape, DType dtype,
                       const Device& device)
    : quantizer_(quantizer), one_pass_(casts_in_one_pass(quantizer)) {
  part_.dq_dtype = dtype;
  if (one_pass_) {
    QuantizerState::Scales scales = quantizer.state()->scales();
    scale_ = scales.scale;
    part_.scale_inv = std::move(scales.scale_inv);
    part_.scaling_mode = ScalingMode::per_tensor;
  }
  part_.data = Tensor::empty(shape, one_pass_ ? quantizer.dtype() : dtype, device);
}

Output CastTarget::output() {
  Output output{.data = part_.data.mutable_data(), .dtype = part_.data.dtype()};
  if (one_pass_) {
    output.scale = &scale_;
    output.amax = &amax_;
  }
  return output;
}

QuantizedTensor CastTarget::finish() {
  if (!quantizer_) return QuantizedTensor(std::move(part_));
  if (one_pass_) {
    note(quantizer_, amax_, part_.data.numel());
    return QuantizedTensor(std::move(part_));
  }
  CastTensor cast = cast_tensor(part_.data, quantizer_, part_.dq_dtype);
  amax_ = cast.amax;
  return std::move(cast.tensor);
}

}  // namespace tape8
