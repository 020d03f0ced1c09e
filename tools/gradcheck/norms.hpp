#pragma once

#include <span>
#include <string>

#include "gradcheck/formulas.hpp"
#include "gradcheck/subject.hpp"

namespace tape8::tools::gradcheck {

/// A norm's options, as layernorm, layernorm_dense and layernorm_mlp have them.
struct NormCase {
  NormType type = NormType::layernorm;
  bool zero_centered_gamma = false;
  bool beta = true;

  /// "rmsnorm_zero_centered_no_beta"
  std::string name() const;
  LayerNormOptions options() const;
  NormFormula formula(const Tensor& gamma, const Tensor& beta_values) const;
  /// The norm by its op, [rows, hidden] in `dtype`: what layers cast.
  Tensor values(const Tensor& x, const Tensor& gamma, const Tensor& beta_values, DType dtype) const;
  /// A row of n values that loses its mean, or its length, or both, keeps one or two dimensions
  /// less: what cancels is larger than what remains by about n / (n - lost).
  double cancellation(std::int64_t hidden) const;
};

/// All that there are: rmsnorm takes no beta.
std::span<const NormCase> norm_cases();
/// One of each type, with all that it takes.
std::span<const NormCase> norm_types();

/// The parameters that norms have: gamma clear of 0, beta or none.
Tensor random_gamma(std::int64_t hidden, DType dtype, Random& random);
Tensor random_beta(const NormCase& norm, std::int64_t hidden, DType dtype, Random& random);

/// Sums over rows, some of whose terms were rounded to `dtype` before: what cancels in them leaves
/// its rounding behind. Empty ones are not compared.
Expected expected_sums(const ColumnSums& sums, DType dtype);

}  // namespace tape8::tools::gradcheck
