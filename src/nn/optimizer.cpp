#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include <tape8/nn/optimizer.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"

namespace tape8 {
namespace {

void check_parameter(const char* name, std::size_t index, const Variable& parameter) {
  if (!parameter.defined() || !parameter.is_leaf()) {
    fail<OptionError>("{}: parameters[{}] must be a parameter: got {}", name, index,
                      parameter.defined() ? "the result of an op" : "none");
  }
  if (!is_compute(parameter.dtype()) || parameter.dtype() == DType::f64) {
    fail<DTypeError>("{}: parameters[{}] must be f32, bf16 or f16: got {}", name, index,
                     to_string(parameter.dtype()));
  }
  if (!parameter.tensor().is_contiguous()) {
    fail<OptionError>("{}: parameters[{}] must be contiguous: got a strided view", name, index);
  }
}

void check_not_negative(const char* name, const char* option, float value) {
  if (!(value >= 0.0F) || !std::isfinite(value)) {
    fail<OptionError>("{}: {} must be finite and at least 0: got {}", name, option, value);
  }
}

}  // namespace

std::vector<ParameterGroup> weight_decay_groups(const std::vector<Variable>& parameters) {
  ParameterGroup decayed;
  ParameterGroup kept{.weight_decay = 0.0F};
  for (const Variable& parameter : parameters) {
    const bool is_matrix = parameter.defined() && parameter.shape().rank() >= 2;
    (is_matrix ? decayed : kept).parameters.push_back(parameter);
  }
  return {std::move(decayed), std::move(kept)};
}

Optimizer::Optimizer(const char* name, std::vector<ParameterGroup> groups, float learning_rate,
                     float weight_decay)
    : name_(name), learning_rate_(0.0F) {
  set_learning_rate(learning_rate);
  check_not_negative(name, "weight_decay", weight_decay);
  std::unordered_set<const VariableState*> seen;
  for (const ParameterGroup& given : groups) {
    const float decay = given.weight_decay.value_or(weight_decay);
    check_not_negative(name, "weight_decay", decay);
    check_not_negative(name, "learning_rate_scale", given.learning_rate_scale);
    const std::size_t first = groups_.size();
    const auto group_on = [&](const Device& device) -> Group& {
      const auto found =
          std::find_if(groups_.begin() + static_cast<std::ptrdiff_t>(first), groups_.end(),
                       [&](const Group& group) { return group.device == device; });
      if (found != groups_.end()) return *found;
      groups_.push_back({.device = device,
                         .weight_decay = decay,
                         .learning_rate_scale = given.learning_rate_scale,
                         .slots = {}});
      return groups_.back();
    };
    for (const Variable& parameter : given.parameters) {
      check_parameter(name, seen.size(), parameter);
      if (!seen.insert(parameter.state().get()).second) {
        fail<OptionError>("{}: parameters[{}] must be named once: got it again", name, seen.size());
      }
      Group& group = group_on(parameter.tensor().device());
      group.slots.push_back({.parameter = parameter,
                             .master = parameter.tensor().to(DType::f32),
                             .version = parameter.tensor().version()});
    }
  }
  if (seen.empty()) fail<OptionError>("{}: parameters must not be empty: got none", name);
}

void Optimizer::refresh_masters() {
  for (Group& group : groups_) {
    for (Slot& slot : group.slots) {
      const Tensor& values = slot.parameter.tensor();
      if (values.version() != slot.version && !values.shares_storage(slot.master)) {
        slot.master.copy_from(values);
      }
    }
  }
}

void Optimizer::note_versions() {
  for (Group& group : groups_) {
    for (Slot& slot : group.slots) slot.version = slot.parameter.tensor().version();
  }
}

void Optimizer::zero_grad() {
  for (Group& group : groups_) {
    for (Slot& slot : group.slots) slot.parameter.zero_grad();
  }
}

void Optimizer::set_learning_rate(float learning_rate) {
  check_not_negative(name_, "learning_rate", learning_rate);
  learning_rate_ = learning_rate;
}

float clip_grad_norm(const std::vector<Variable>& parameters, float max_norm) {
  if (!(max_norm > 0.0F)) {
    fail<OptionError>("clip_grad_norm: max_norm must be above 0: got {}", max_norm);
  }
  std::unordered_set<const VariableState*> seen;
  for (const Variable& parameter : parameters) {
    if (!parameter.defined()) {
      fail<OptionError>("clip_grad_norm: parameters[{}] must be given: got none", seen.size());
    }
    if (!seen.insert(parameter.state().get()).second) {
      fail<OptionError>("clip_grad_norm: parameters[{}] must be named once: got it again",
                        seen.size());
    }
  }
  double squares = 0.0;
  for (const Variable& parameter : parameters) {
    const Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    squares +=
        backend(gradient.device())
            .sum_of_squares(gradient.numel(), {.data = gradient.data(), .dtype = gradient.dtype()});
  }
  const double exact_norm = std::sqrt(squares);
  const auto norm = static_cast<float>(exact_norm);
  if (std::isfinite(norm) && norm > max_norm) {
    for (const Variable& parameter : parameters) {
      Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      void* data = gradient.mutable_data();
      backend(gradient.device())
          .scale({.count = gradient.numel(),
                  .x = {.data = data, .dtype = gradient.dtype()},
                  .factor = static_cast<double>(max_norm) / exact_norm,
                  .y = {.data = data, .dtype = gradient.dtype()}});
    }
  }
  return norm;
}

}  // namespace tape8
