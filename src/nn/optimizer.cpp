#include <cmath>
#include <utility>

#include <tape8/nn/optimizer.hpp>

#include "core/fail.hpp"

namespace tape8 {

Optimizer::Optimizer(const char* name, std::vector<Variable> parameters, float learning_rate)
    : name_(name), learning_rate_(0.0F) {
  set_learning_rate(learning_rate);
  if (parameters.empty()) fail<OptionError>("{}: parameters must not be empty: got none", name);
  slots_.reserve(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Variable& parameter = parameters[i];
    if (!parameter.defined() || !parameter.is_leaf()) {
      fail<OptionError>("{}: parameters[{}] must be a parameter: got {}", name, i,
                        parameter.defined() ? "the result of an op" : "none");
    }
    if (!is_compute(parameter.dtype()) || parameter.dtype() == DType::f64) {
      fail<DTypeError>("{}: parameters[{}] must be f32, bf16 or f16: got {}", name, i,
                       to_string(parameter.dtype()));
    }
    if (!parameter.tensor().is_contiguous()) {
      fail<OptionError>("{}: parameters[{}] must be contiguous: got a strided view", name, i);
    }
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      if (parameters[earlier].state() == parameter.state()) {
        fail<OptionError>("{}: parameters[{}] must be named once: got it as parameters[{}] too",
                          name, i, earlier);
      }
    }
    slots_.push_back({.parameter = parameter, .master = parameter.tensor().to(DType::f32)});
  }
}

void Optimizer::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.zero_grad();
}

void Optimizer::set_learning_rate(float learning_rate) {
  if (!(learning_rate >= 0.0F) || !std::isfinite(learning_rate)) {
    fail<OptionError>("{}: learning_rate must be finite and at least 0: got {}", name_,
                      learning_rate);
  }
  learning_rate_ = learning_rate;
}

}  // namespace tape8
