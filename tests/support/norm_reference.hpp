#pragma once

#include <cmath>
#include <cstdint>

#include <tape8/core/norm_type.hpp>

#include "support/values.hpp"

namespace tape8::test {

/// What a norm is computed from; gamma as it is used, with the 1 of zero_centered_gamma added.
struct NormCase {
  NormType type = NormType::layernorm;
  double epsilon = 1e-6;
  std::int64_t rows = 0, cols = 0;
};

/// layernorm or rmsnorm of x [rows, cols] in float64; beta may be empty.
inline Values norm(const NormCase& c, const Values& x, const Values& gamma, const Values& beta) {
  Values y(x.size());
  const auto cols = static_cast<std::size_t>(c.cols);
  for (std::size_t start = 0; start < x.size(); start += cols) {
    double mu = 0.0;
    double square = 0.0;
    if (c.type == NormType::layernorm) {
      for (std::size_t j = 0; j < cols; ++j) mu += x[start + j] / static_cast<double>(cols);
    }
    for (std::size_t j = 0; j < cols; ++j) {
      square += (x[start + j] - mu) * (x[start + j] - mu) / static_cast<double>(cols);
    }
    const double rsigma = 1.0 / std::sqrt(square + c.epsilon);
    for (std::size_t j = 0; j < cols; ++j) {
      y[start + j] = (x[start + j] - mu) * rsigma * gamma[j] + (beta.empty() ? 0.0 : beta[j]);
    }
  }
  return y;
}

/// Gradients of the norm for a cotangent dz of its result.
struct NormGradients {
  Values dx, dgamma, dbeta;
};

inline NormGradients norm_gradients(const NormCase& c, const Values& x, const Values& gamma,
                                    const Values& dz) {
  const auto cols = static_cast<std::size_t>(c.cols);
  const bool centered = c.type == NormType::layernorm;
  NormGradients result{Values(x.size()), Values(cols), Values(cols)};
  for (std::size_t start = 0; start < x.size(); start += cols) {
    double mu = 0.0;
    double square = 0.0;
    for (std::size_t j = 0; centered && j < cols; ++j) mu += x[start + j];
    mu /= static_cast<double>(cols);
    for (std::size_t j = 0; j < cols; ++j) square += (x[start + j] - mu) * (x[start + j] - mu);
    const double rsigma = 1.0 / std::sqrt(square / static_cast<double>(cols) + c.epsilon);
    double mean_g = 0.0;
    double mean_gx = 0.0;
    for (std::size_t j = 0; j < cols; ++j) {
      const double xhat = (x[start + j] - mu) * rsigma;
      const double g = dz[start + j] * gamma[j];
      mean_g += g / static_cast<double>(cols);
      mean_gx += g * xhat / static_cast<double>(cols);
      result.dgamma[j] += dz[start + j] * xhat;
      result.dbeta[j] += dz[start + j];
    }
    for (std::size_t j = 0; j < cols; ++j) {
      const double xhat = (x[start + j] - mu) * rsigma;
      const double g = dz[start + j] * gamma[j];
      result.dx[start + j] = rsigma * (g - (centered ? mean_g : 0.0) - xhat * mean_gx);
    }
  }
  return result;
}

}  // namespace tape8::test
