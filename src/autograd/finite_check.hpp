#pragma once

#include <span>
#include <string_view>

#include <tape8/autograd/variable.hpp>

namespace tape8 {

/// True for tensors that are none, of integers, or without NaN and Inf.
bool is_finite(const Tensor& tensor);

/// Throws StateError when an op made a NaN or Inf from inputs without any.
void check_forward_finite(std::string_view op, std::span<const Variable> inputs,
                          const Tensor& output);

}  // namespace tape8
