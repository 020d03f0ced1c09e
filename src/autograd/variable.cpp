#include <utility>

#include <tape8/autograd/variable.hpp>

#include "autograd/variable_state.hpp"
#include "core/fail.hpp"

namespace tape8 {

Variable::Variable(Tensor tensor) : state_(std::make_shared<VariableState>()) {
  if (!tensor.defined()) {
    state_.reset();
    return;
  }
  state_->value = std::move(tensor);
}

VariableState& Variable::checked() const {
  if (!defined()) fail<StateError>("variable: must hold a tensor: got none");
  return *state_;
}

const Tensor& Variable::tensor() const { return checked().value; }
const Tensor& Variable::grad() const { return checked().grad; }
void Variable::zero_grad() { checked().grad = Tensor{}; }

void Variable::set_grad_memory(Tensor memory) {
  VariableState& state = checked();
  if (!state.is_leaf()) {
    fail<StateError>("set_grad_memory: only a leaf keeps a gradient: got an op's result");
  }
  if (memory.defined()) {
    if (memory.shape() != state.value.shape()) {
      fail<ShapeError>("set_grad_memory: memory must have the leaf's shape {}: got {}",
                       to_string(state.value.shape()), to_string(memory.shape()));
    }
    if (memory.dtype() != state.value.dtype()) {
      fail<DTypeError>("set_grad_memory: memory must have the leaf's dtype {}: got {}",
                       to_string(state.value.dtype()), to_string(memory.dtype()));
    }
    if (memory.shares_storage(state.value)) {
      fail<OptionError>("set_grad_memory: memory must not be the leaf's own: got the same block");
    }
    if (!memory.is_contiguous()) {
      fail<OptionError>("set_grad_memory: memory must be contiguous: got a strided view");
    }
  }
  const bool grad_lies_there =
      state.grad.defined() && state.grad.data() == state.grad_memory.data();
  if (grad_lies_there && !memory.defined()) state.grad = state.grad.clone();
  state.grad_memory = std::move(memory);
}

bool Variable::requires_grad() const { return checked().requires_grad; }
bool Variable::is_leaf() const { return checked().is_leaf(); }
const std::string& Variable::name() const { return checked().name; }

void Variable::set_requires_grad(bool requires_grad) {
  VariableState& state = checked();
  if (!state.is_leaf()) {
    fail<StateError>("set_requires_grad: only a leaf can be frozen or thawed: got an op's result");
  }
  if (requires_grad && !is_compute(state.value.dtype())) {
    fail<DTypeError>("set_requires_grad: dtype must be f64, f32, bf16 or f16: got {}",
                     to_string(state.value.dtype()));
  }
  state.requires_grad = requires_grad;
}

Variable parameter(Tensor tensor, std::string name) {
  if (!tensor.defined()) fail<OptionError>("parameter: a tensor must be given: got none");
  if (!is_compute(tensor.dtype())) {
    fail<DTypeError>("parameter: dtype must be f64, f32, bf16 or f16: got {}",
                     to_string(tensor.dtype()));
  }
  auto state = std::make_shared<VariableState>();
  state->value = std::move(tensor);
  state->name = std::move(name);
  state->requires_grad = true;
  state->weight_casts = std::make_unique<WeightCasts>();
  return Variable(std::move(state));
}

}  // namespace tape8
