#include <tape8/quantize/quantizer.hpp>
#include <utility>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "quantize/cast_target.hpp"
#include "quantize/quantizer_state.hpp"

namespace tape8 {

Quantizer::Quantizer(const Recipe& recipe, TensorRole role, std::string checkpoint_name) {
  if (const auto* delayed = std::get_if<DelayedScaling>(&recipe)) {
    state_ = std::make_shared<QuantizerState>(*delayed, role, std::move(checkpoint_name));
  }
}

Quantizer Quantizer::clone() const {
  Quantizer copy;
  if (defined()) copy.state_ = std::make_shared<QuantizerState>(*state_);
  return copy;
}

QuantizedTensor Quantizer::quantize(const Tensor& x) const {
  if (!x.defined()) fail<OptionError>("quantize: x must be given: got none");
  if (!defined()) return QuantizedTensor(x);
  if (!is_compute(x.dtype()) || x.dtype() == DType::f64) {
    fail<DTypeError>("quantize: x must be f32, bf16 or f16: got {}", to_string(x.dtype()));
  }
  const Tensor values = x.contiguous();
  CastTarget target(*this, values.shape(), values.dtype(), values.device());
  backend(values.device())
      .cast({.rows = 1,
             .cols = values.numel(),
             .x = {.data = values.data(), .dtype = values.dtype()},
             .y = target.output()});
  return target.finish();
}

const QuantizerState& Quantizer::checked(const char* call) const {
  if (!defined()) fail<StateError>("quantizer: {} needs a recipe: got none", call);
  return *state_;
}

DType Quantizer::dtype() const { return checked("dtype").dtype(); }
const Recipe& Quantizer::recipe() const { return checked("recipe").recipe(); }
TensorRole Quantizer::role() const { return checked("role").role(); }
const std::string& Quantizer::checkpoint_name() const {
  return checked("checkpoint_name").checkpoint_name();
}
Scale Quantizer::scale() const { return checked("scale").scale(); }
std::vector<float> Quantizer::amax_history() const {
  return checked("amax_history").amax_history();
}
std::int64_t Quantizer::non_finite_passes() const {
  return checked("non_finite_passes").non_finite_passes();
}

void Quantizer::set_state(Scale scale, std::span<const float> amax_history) {
  checked("set_state");
  state_->set(scale, amax_history);
}

Quantizer make_quantizer(const Recipe& recipe, TensorRole role) { return Quantizer(recipe, role); }

QuantizerSet make_quantizer_set(const Recipe& recipe) {
  return {make_quantizer(recipe, TensorRole::x), make_quantizer(recipe, TensorRole::kernel),
          make_quantizer(recipe, TensorRole::dgrad)};
}

}  // namespace tape8
