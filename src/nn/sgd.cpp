#include <cmath>
#include <utility>

#include <tape8/nn/optimizer.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "nn/slots.hpp"

namespace tape8 {

SGD::SGD(std::vector<Variable> parameters, const SGDOptions& options)
    : SGD(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, options) {}

SGD::SGD(std::vector<ParameterGroup> groups, const SGDOptions& options)
    : Optimizer("sgd", std::move(groups), options.learning_rate, options.weight_decay),
      options_(options) {
  if (!(options.momentum >= 0.0F && options.momentum < 1.0F)) {
    fail<OptionError>("sgd: momentum must lie in [0, 1): got {}", options.momentum);
  }
  if (options.nesterov && options.momentum == 0.0F) {
    fail<OptionError>("sgd: momentum must be above 0 for nesterov: got 0");
  }
}

void SGD::step() {
  refresh_masters();
  ++steps_;
  const bool keeps_velocity = options_.momentum > 0.0F;
  std::vector<SgdTensor> tensors;
  for (Group& group : groups_) {
    tensors.clear();
    for (Slot& slot : group.slots) {
      const Tensor& gradient = slot.parameter.grad();
      if (!gradient.defined()) continue;
      tensors.push_back(
          {.count = slot.master.numel(),
           .weight = static_cast<float*>(slot.master.mutable_data()),
           .grad = gradient_input(gradient),
           .velocity = keeps_velocity ? moment_data(slot.first_moment, slot.master) : nullptr,
           .copy = parameter_copy(slot.parameter, slot.master)});
    }
    if (tensors.empty()) continue;
    backend(group.device)
        .sgd({.tensors = tensors,
              .learning_rate = learning_rate() * group.learning_rate_scale,
              .momentum = options_.momentum,
              .weight_decay = group.weight_decay,
              .nesterov = options_.nesterov});
  }
  note_versions();
}

}  // namespace tape8
