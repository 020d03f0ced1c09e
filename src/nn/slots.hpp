#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/tensor.hpp>

#include "backend/backend.hpp"

namespace tape8 {

/// The f32 memory of a state tensor, made of zeros at its first use.
inline float* moment_data(Tensor& moment, const Tensor& master) {
  if (!moment.defined()) moment = Tensor::zeros(master.shape(), DType::f32, master.device());
  return static_cast<float*>(moment.mutable_data());
}

/// Where the rounded weights go: nowhere when the master is the parameter's own memory.
inline Output parameter_copy(const Variable& parameter, const Tensor& master) {
  Tensor values = parameter.tensor();
  if (values.shares_storage(master)) return {};
  return {.data = values.mutable_data(), .dtype = values.dtype()};
}

inline Input gradient_input(const Tensor& gradient) {
  return {.data = gradient.data(), .dtype = gradient.dtype()};
}

}  // namespace tape8
