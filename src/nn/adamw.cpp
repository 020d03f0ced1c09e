#include <cmath>
#include <utility>

#include <tape8/nn/optimizer.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "nn/slots.hpp"

namespace tape8 {
namespace {

void check_beta(const char* name, float beta) {
  if (!(beta >= 0.0F && beta < 1.0F)) {
    fail<OptionError>("adamw: {} must lie in [0, 1): got {}", name, beta);
  }
}

}  // namespace

AdamW::AdamW(std::vector<Variable> parameters, const AdamWOptions& options)
    : AdamW(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, options) {}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options)
    : Optimizer("adamw", std::move(groups), options.learning_rate, options.weight_decay),
      options_(options) {
  check_beta("beta1", options.beta1);
  check_beta("beta2", options.beta2);
  if (!(options.epsilon >= 0.0F) || !std::isfinite(options.epsilon)) {
    fail<OptionError>("adamw: epsilon must be finite and at least 0: got {}", options.epsilon);
  }
}

void AdamW::step() {
  refresh_masters();
  ++steps_;
  std::vector<AdamWTensor> tensors;
  for (Group& group : groups_) {
    tensors.clear();
    for (Slot& slot : group.slots) {
      const Tensor& gradient = slot.parameter.grad();
      if (!gradient.defined()) continue;
      tensors.push_back({.count = slot.master.numel(),
                         .weight = static_cast<float*>(slot.master.mutable_data()),
                         .grad = gradient_input(gradient),
                         .exp_avg = moment_data(slot.first_moment, slot.master),
                         .exp_avg_sq = moment_data(slot.second_moment, slot.master),
                         .copy = parameter_copy(slot.parameter, slot.master)});
    }
    if (tensors.empty()) continue;
    backend(group.device)
        .adamw({.tensors = tensors,
                .learning_rate = learning_rate() * group.learning_rate_scale,
                .beta1 = options_.beta1,
                .beta2 = options_.beta2,
                .epsilon = options_.epsilon,
                .weight_decay = group.weight_decay,
                .step = steps_});
  }
  note_versions();
}

}  // namespace tape8
