#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>

#include "support/expect.hpp"
#include "support/own_ops.hpp"
#include "support/run.hpp"

namespace tape8::test {

inline constexpr std::array kComputeTypes{DType::f64, DType::f32, DType::bf16, DType::f16};

using Op = std::function<Variable(const std::vector<Variable>&)>;

/// How far a gradient may be from central differences of a float64 forward, which are themselves
/// good to some 1e-9 of the largest.
inline double gradient_tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-7 : tolerance(dtype);
}

inline std::vector<Values> values_of_all(const std::vector<Tensor>& tensors) {
  std::vector<Values> all;
  for (const Tensor& t : tensors) all.push_back(t.defined() ? values_of(t) : Values{});
  return all;
}

/// Checks an op's result against `forward` in float64, and each gradient's form and values against
/// differences of it. `factor` widens the tolerances; its caller says why.
inline Ran check_op(const std::vector<Tensor>& inputs, const Op& op, const Forward& forward,
                    double factor = 1.0) {
  const Ran ran = run(inputs, op);
  const std::vector<Values> values = values_of_all(inputs);
  check_close(ran.y, forward(values), factor * tolerance(ran.y.dtype()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    if (!inputs[i].defined()) continue;
    const Tensor& gradient = ran.gradients[i];
    REQUIRE(gradient.defined());
    CHECK(gradient.shape() == inputs[i].shape());
    CHECK(gradient.dtype() == inputs[i].dtype());
    // A result that was rounded to 16 bits on its way makes the gradient no finer than that.
    const double limit =
        std::max(gradient_tolerance(gradient.dtype()), gradient_tolerance(ran.y.dtype()));
    check_close(gradient, difference_gradient(forward, values, i, values_of(ran.dy)),
                factor * limit);
  }
  return ran;
}

/// The values of a tensor behind a view: column-major, every other element.
inline Tensor as_view(const Tensor& tensor) {
  std::vector<std::int64_t> strides;
  std::int64_t stride = 2;
  for (const std::int64_t size : tensor.shape().sizes()) {
    strides.push_back(stride);
    stride *= std::max<std::int64_t>(size, 1);
  }
  Tensor memory = Tensor::full({stride}, 77.0, tensor.dtype());
  Tensor view = Tensor::wrap_strided(memory.mutable_data(), tensor.shape(), strides, tensor.dtype(),
                                     [memory](void*) {});
  view.copy_from(tensor);
  return view;
}

/// Forward and backward from a given cotangent.
inline Ran run_from(const std::vector<Tensor>& inputs, const Op& op, const Tensor& dy) {
  std::vector<Variable> variables;
  for (const Tensor& t : inputs) variables.push_back(t.defined() ? parameter(t) : Variable{});
  Tape tape;
  const Variable y = op(variables);
  tape.backward(y, dy);
  Ran ran{.y = y.tensor(), .dy = dy, .gradients = {}};
  for (const Variable& v : variables) ran.gradients.push_back(v ? v.grad() : Tensor{});
  return ran;
}

/// Views as inputs and as cotangent give the bits that their copies give.
inline void check_views(const std::vector<Tensor>& inputs, const Op& op) {
  const Ran plain = run(inputs, op);
  std::vector<Tensor> views;
  for (const Tensor& t : inputs) views.push_back(t.defined() ? as_view(t) : Tensor{});
  const Ran strided = run_from(views, op, as_view(plain.dy));
  CHECK(bytes_of(strided.y) == bytes_of(plain.y));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    if (inputs[i].defined()) {
      CHECK(bytes_of(strided.gradients[i]) == bytes_of(plain.gradients[i]));
    }
  }
}

/// Bytes that a tape keeps for one op on f32 results of other ops, which are not parameters.
inline std::int64_t bytes_kept(const std::vector<Tensor>& inputs, const Op& op) {
  Tape tape;
  std::vector<Variable> variables;
  for (const Tensor& t : inputs) variables.push_back(scaled(parameter(t), 1.0F));
  (void)op(variables);
  return tape.saved_for_backward_bytes();
}

}  // namespace tape8::test
