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

void check_not_negative(const char* name, float value) {
  if (!(value >= 0.0F) || !std::isfinite(value)) {
    fail<OptionError>("adamw: {} must be finite and at least 0: got {}", name, value);
  }
}

}  // namespace

AdamW::AdamW(std::vector<Variable> parameters, const AdamWOptions& options)
    : Optimizer("adamw", std::move(parameters), options.learning_rate), options_(options) {
  check_beta("beta1", options.beta1);
  check_beta("beta2", options.beta2);
  check_not_negative("epsilon", options.epsilon);
  check_not_negative("weight_decay", options.weight_decay);
}

void AdamW::step() {
  std::vector<AdamWTensor> tensors;
  tensors.reserve(slots_.size());
  for (Slot& slot : slots_) {
    const Tensor& gradient = slot.parameter.grad();
    if (!gradient.defined()) continue;
    tensors.push_back({.count = slot.master.numel(),
                       .weight = static_cast<float*>(slot.master.mutable_data()),
                       .grad = gradient_input(gradient),
                       .exp_avg = moment_data(slot.first_moment, slot.master),
                       .exp_avg_sq = moment_data(slot.second_moment, slot.master),
                       .copy = parameter_copy(slot.parameter, slot.master)});
  }
  ++steps_;
  backend(slots_.front().master.device())
      .adamw({.tensors = tensors,
              .learning_rate = learning_rate(),
              .beta1 = options_.beta1,
              .beta2 = options_.beta2,
              .epsilon = options_.epsilon,
              .weight_decay = options_.weight_decay,
              .step = steps_});
}

}  // namespace tape8
