#pragma once

#include <functional>
#include <vector>

#include <tape8/autograd/tape.hpp>

#include "support/values.hpp"

namespace tape8::test {

/// A result and the gradients of its inputs for a random cotangent.
struct Ran {
  Tensor y, dy;
  std::vector<Tensor> gradients;  // one an input; undefined for none
};

/// Runs an op forward and backward on parameters made of `inputs` (undefined ones are none).
inline Ran run(const std::vector<Tensor>& inputs,
               const std::function<Variable(const std::vector<Variable>&)>& op,
               std::uint64_t seed = 99) {
  std::vector<Variable> variables;
  for (const Tensor& input : inputs) {
    variables.push_back(input.defined() ? parameter(input) : Variable{});
  }
  Ran ran;
  Tape tape;
  const Variable y = op(variables);
  ran.y = y.tensor();
  ran.dy = random_tensor(y.shape(), seed, y.dtype());
  tape.backward(y, ran.dy);
  for (const Variable& variable : variables) {
    ran.gradients.push_back(variable ? variable.grad() : Tensor{});
  }
  return ran;
}

/// What an op of float64 values gives in float64, for differences: the sum of dy * f(inputs).
using Forward = std::function<Values(const std::vector<Values>&)>;

/// Central differences of dot(dy, forward(inputs)) with respect to input `which`.
inline Values difference_gradient(const Forward& forward, std::vector<Values> inputs,
                                  std::size_t which, const Values& dy) {
  Values at = inputs[which];
  return central_differences(
      [&](const Values& moved) {
        inputs[which] = moved;
        return dot(dy, forward(inputs));
      },
      std::move(at));
}

}  // namespace tape8::test
