#pragma once

#include "gradcheck/matrix.hpp"

namespace tape8::tools::gradcheck {

// The ops' formulas in float64, a loop each.

struct NormFormula {
  NormType type = NormType::layernorm;
  bool zero_centered_gamma = false;
  double epsilon = 1e-6;
  std::vector<double> gamma;
  std::vector<double> beta = {};  ///< none: zeros
};

struct NormGradients {
  Matrix dx;
  ColumnSums dgamma, dbeta;
};

Matrix norm(const NormFormula& formula, const Matrix& x);
NormGradients norm_gradients(const NormFormula& formula, const Matrix& x, const Matrix& dy);

/// x: [rows, parts * cols]; the result: [rows, cols].
Matrix activation(const ActivationType& type, const ClampedSwigluParams& params, const Matrix& x);
/// The gradient in x.
Matrix activation_gradient(const ActivationType& type, const ClampedSwigluParams& params,
                           const Matrix& x, const Matrix& dy);

}  // namespace tape8::tools::gradcheck
