#include <utility>

#include <tape8/quantize/quantizer.hpp>

#include "core/fail.hpp"
#include "quantize/cast.hpp"
#include "quantize/quantizer_state.hpp"

namespace tape8 {
namespace {

struct OverrideOf {
  BackwardOverride operator()(const HighPrecision&) const { return BackwardOverride::none; }
  template <class R>
  BackwardOverride operator()(const R& recipe) const {
    return recipe.backward_override;
  }
};

BackwardOverride backward_override(const Recipe& recipe) {
  return std::visit(OverrideOf{}, recipe);
}

}  // namespace

Quantizer::Quantizer(const Recipe& recipe, TensorRole role, std::string checkpoint_name) {
  if (std::holds_alternative<HighPrecision>(recipe)) return;
  state_ = std::make_shared<QuantizerState>(recipe, role, std::move(checkpoint_name));
}

Quantizer Quantizer::clone() const {
  Quantizer copy;
  if (defined()) copy.state_ = std::make_shared<QuantizerState>(*state_);
  return copy;
}

QuantizedTensor Quantizer::quantize(const Tensor& x, int flatten_axis) const {
  if (!x.defined()) fail<OptionError>("quantize: x must be given: got none");
  if (!defined()) return QuantizedTensor(x);
  if (!is_compute(x.dtype()) || x.dtype() == DType::f64) {
    fail<DTypeError>("quantize: x must be f32, bf16 or f16: got {}", to_string(x.dtype()));
  }
  return cast_tensor(x, *this, x.dtype(), {.flatten_axis = flatten_axis}).tensor;
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

const QuantizerState& Quantizer::checked_delayed(const char* call) const {
  const QuantizerState& state = checked(call);
  if (!std::holds_alternative<DelayedScaling>(state.recipe())) {
    fail<StateError>("quantizer: {} needs delayed scaling: got {}", call,
                     to_string(state.recipe()));
  }
  return state;
}

Scale Quantizer::scale() const { return checked_delayed("scale").scale(); }
std::vector<float> Quantizer::amax_history() const {
  return checked_delayed("amax_history").amax_history();
}
std::int64_t Quantizer::non_finite_passes() const {
  return checked_delayed("non_finite_passes").non_finite_passes();
}

void Quantizer::set_state(Scale scale, std::span<const float> amax_history) {
  checked_delayed("set_state");
  state_->set(scale, amax_history);
}

RandomState Quantizer::random_state() const {
  const std::optional<RandomState> random = checked("random_state").random_state();
  if (!random) fail<StateError>("quantizer: random_state needs stochastic rounding: got none");
  return *random;
}

void Quantizer::set_random_state(const RandomState& random) {
  random_state();
  state_->set_random_state(random);
}

Quantizer make_quantizer(const Recipe& recipe, TensorRole role) { return Quantizer(recipe, role); }

QuantizerSet make_quantizer_set(const Recipe& recipe) {
  return {.x = make_quantizer(recipe, TensorRole::x),
          .kernel = make_quantizer(recipe, TensorRole::kernel),
          .dgrad = make_quantizer(recipe, TensorRole::dgrad),
          .backward_override = backward_override(recipe)};
}

}  // namespace tape8
