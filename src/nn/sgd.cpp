#include <cmath>
#include <utility>

#include <tape8/nn/optimizer.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "nn/slots.hpp"

namespace tape8 {

SGD::SGD(std::vector<Variable> parameters, const SGDOptions& options)
    : Optimizer("sgd", std::move(parameters), options.learning_rate), options_(options) {
  if (!(options.momentum >= 0.0F && options.momentum < 1.0F)) {
    fail<OptionError>("sgd: momentum must lie in [0, 1): got {}", options.momentum);
  }
  if (!(options.weight_decay >= 0.0F) || !std::isfinite(options.weight_decay)) {
    fail<OptionError>("sgd: weight_decay must be finite and at least 0: got {}",
                      options.weight_decay);
  }
  if (options.nesterov && options.momentum == 0.0F) {
    fail<OptionError>("sgd: nesterov needs a momentum: got 0");
  }
}

void SGD::step() {
  std::vector<SgdTensor> tensors;
  tensors.reserve(slots_.size());
  const bool keeps_velocity = options_.momentum > 0.0F;
  for (Slot& slot : slots_) {
    const Tensor& gradient = slot.parameter.grad();
    if (!gradient.defined()) continue;
    tensors.push_back(
        {.count = slot.master.numel(),
         .weight = static_cast<float*>(slot.master.mutable_data()),
         .grad = gradient_input(gradient),
         .velocity = keeps_velocity ? moment_data(slot.first_moment, slot.master) : nullptr,
         .copy = parameter_copy(slot.parameter, slot.master)});
  }
  ++steps_;
  backend(slots_.front().master.device())
      .sgd({.tensors = tensors,
            .learning_rate = learning_rate(),
            .momentum = options_.momentum,
            .weight_decay = options_.weight_decay,
            .nesterov = options_.nesterov});
}

}  // namespace tape8
