#include "quantize/cast_target.hpp"

#include "quantize/amax_notes.hpp"

namespace tape8 {

CastTarget::CastTarget(const Quantizer& quantizer, const Shape& shape, DType dtype,
                       const Device& device)
    : quantizer_(quantizer.state()) {
  part_.dq_dtype = dtype;
  if (quantizer_ != nullptr) {
    QuantizerState::Scales scales = quantizer_->scales();
    scale_ = scales.scale;
    part_.scale_inv = std::move(scales.scale_inv);
    part_.scaling_mode = ScalingMode::per_tensor;
    part_.data = Tensor::empty(shape, quantizer_->dtype(), device);
  } else {
    part_.data = Tensor::empty(shape, dtype, device);
  }
}

Output CastTarget::output() {
  if (quantizer_ == nullptr)
    return {.data = part_.data.mutable_data(), .dtype = part_.data.dtype()};
  return {.data = part_.data.mutable_data(),
          .dtype = part_.data.dtype(),
          .scale = &scale_,
          .amax = &amax_};
}

QuantizedTensor CastTarget::finish() {
  AmaxNotes* notes = AmaxNotes::current();
  if (quantizer_ != nullptr && notes != nullptr && part_.data.numel() > 0) {
    notes->note(quantizer_, amax_);
  }
  return QuantizedTensor(std::move(part_));
}

}  // namespace tape8
