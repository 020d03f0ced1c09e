#pragma once

#include <tape8/autograd/tape.hpp>
#include <tape8/core/activation_type.hpp>

#include "backend/backend.hpp"

namespace tape8 {

/// An activation over the last axis of x: its arguments, which are what its backward needs.
struct SavedActivation {
  Tensor x;  // [..., parts * cols]
  ActivationType type = Act::linear;
  ActivationParams params;
  std::int64_t rows = 0, cols = 0;

  void visit(SavedVisitor& visitor) const { visitor("x", x); }
  /// [..., cols]
  Shape y_shape() const { return x.shape().axes(0, x.shape().rank() - 1).joined({cols}); }
};

/// Checks type and params for an x of that dtype; `op` names the caller.
void check_activation(const char* op, DType x, const ActivationType& type,
                      const ActivationParams& params);

/// The activation of a contiguous x whose last axis the parts divide.
SavedActivation prepare_activation(Tensor x, const ActivationType& type,
                                   const ActivationParams& params);

void activation_forward(const SavedActivation& saved, const Output& y);
/// dx, and with `dbias` the sum over its rows before its cast.
void activation_backward(const SavedActivation& saved, const Tensor& dy, const Output& dx,
                         Stat* dbias = nullptr);

}  // namespace tape8
