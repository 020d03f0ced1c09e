#pragma once

#include <span>
#include <string>

#include "gradcheck/formulas.hpp"
#include "gradcheck/subject.hpp"

namespace tape8::tools::gradcheck {

/// A norm's options, as layernorm and layernorm_dense have them.
struct NormCase {
  NormType type = NormType::layernorm;
  bool zero_centered_gamma = false;
  bool beta = true;

  /// "rmsnorm_zero_centered_no_beta"
  std::string name() const;
  NormFormula formula(const Tensor& gamma, const Tensor& beta) const;
  /// A row of n values that loses its mean, or its length, or both, keeps one or two dimensions
  /// less: what cancels is larger than what remains by about n / (n - lost).
  double cancellation(std::int64_t hidden) const;
};

/// All that there are: rmsnorm takes no beta.
std::span<const NormCase> norm_cases();

constexpr float kNormEpsilon = 1e-6F;

}  // namespace tape8::tools::gradcheck
