#pragma once

#include <tape8/autograd/tape.hpp>
#include <tape8/autograd/variable.hpp>
#include <tape8/core/norm_type.hpp>

#include "backend/backend.hpp"

namespace tape8 {

struct NormOptions {
  NormType type = NormType::layernorm;
  bool zero_centered_gamma = false;
  float epsilon = 0.0F;
};

/// A norm over the last axis of x: its arguments, and what its backward needs.
struct SavedNorm {
  Tensor x, gamma, beta, mu, rsigma;
  NormOptions options;
  DType gamma_dtype = DType::f32, beta_dtype = DType::f32;
  bool runs_again = false;  // backward computes the output once more, and reads beta for it

  void visit(SavedVisitor& visitor) const;
};

struct NormGradients {
  Tensor x, gamma, beta;
};
struct NormNeeds {
  bool x = false, gamma = false, beta = false;
  bool any() const { return x || gamma || beta; }
};

/// Checks x, gamma, beta and options; `op` names the caller.
void check_norm(const char* op, const Variable& x, const Variable& gamma, const Variable& beta,
                const NormOptions& options);

/// The norm of checked arguments, its statistics not computed yet.
SavedNorm prepare_norm(const Variable& x, const Variable& gamma, const Variable& beta,
                       const NormOptions& options);

/// Writes norm(x) to `y` and the statistics to `saved`.
void norm_forward(SavedNorm& saved, const Output& y);
/// Writes norm(x) once more.
void norm_again(const SavedNorm& saved, const Output& y);
/// The gradients that are wanted, each in its argument's dtype; the others are undefined.
NormGradients norm_backward(const SavedNorm& saved, const Tensor& dy, const NormNeeds& needs);

}  // namespace tape8
