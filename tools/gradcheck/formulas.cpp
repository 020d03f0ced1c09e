#include "gradcheck/formulas.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace tape8::tools::gradcheck {
namespace {

using Real = long double;

/// A row's mean (0 for rmsnorm) and the inverse of its spread.
struct Statistics {
  double mu = 0.0;
  double rsigma = 0.0;
};

Statistics statistics(const NormFormula& formula, const Matrix& x, std::int64_t row) {
  const auto count = static_cast<double>(x.cols);
  Statistics result;
  if (formula.type == NormType::layernorm) {
    for (std::int64_t j = 0; j < x.cols; ++j) result.mu += x.at(row, j) / count;
  }
  double square = 0.0;
  for (std::int64_t j = 0; j < x.cols; ++j) {
    const double centered = x.at(row, j) - result.mu;
    square += centered * centered / count;
  }
  result.rsigma = 1.0 / std::sqrt(square + formula.epsilon);
  return result;
}

double gamma_at(const NormFormula& formula, std::int64_t col) {
  return formula.gamma[static_cast<std::size_t>(col)] + (formula.zero_centered_gamma ? 1.0 : 0.0);
}

Real sigmoid(Real x) { return 1.0L / (1.0L + std::exp(-x)); }

Real value(Act act, Real x, const ClampedSwigluParams& params) {
  switch (act) {
    case Act::linear:
      return x;
    case Act::gelu:
      return 0.5L * x * (1.0L + std::tanh(0.79788456080286535588L * (x + 0.044715L * x * x * x)));
    case Act::silu:
      return x * sigmoid(x);
    case Act::sigmoid:
      return sigmoid(x);
    case Act::relu:
      return std::max(x, 0.0L);
    case Act::squared_relu:
      return x > 0.0L ? x * x : 0.0L;
    case Act::quick_gelu:
      return x * sigmoid(1.702L * x);
    case Act::clamped_silu: {
      const Real clamped = std::min(x, Real{params.limit});
      return clamped * sigmoid(Real{params.alpha} * clamped);
    }
    case Act::clamped_linear:
      return std::clamp(x, -Real{params.limit}, Real{params.limit}) +
             Real{params.glu_linear_offset};
  }
  return 0.0L;
}

/// By a difference in extended precision, but where a kink could lie within its step.
double slope(Act act, double x, const ClampedSwigluParams& params) {
  constexpr Real kStep = 1e-6L;
  const double limit = double{params.limit};
  if (act == Act::relu) return x > 0.0 ? 1.0 : 0.0;
  if (act == Act::squared_relu) return x > 0.0 ? 2.0 * x : 0.0;
  if (act == Act::clamped_linear) return std::abs(x) <= limit ? 1.0 : 0.0;
  if (act == Act::clamped_silu && x > limit) return 0.0;
  ClampedSwigluParams unclamped = params;
  unclamped.limit = std::numeric_limits<float>::infinity();
  return static_cast<double>(
      (value(act, Real{x} + kStep, unclamped) - value(act, Real{x} - kStep, unclamped)) /
      (2.0L * kStep));
}

}  // namespace

Matrix norm(const NormFormula& formula, const Matrix& x) {
  Matrix y = x;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const Statistics row = statistics(formula, x, i);
    for (std::int64_t j = 0; j < x.cols; ++j) {
      y.at(i, j) = (x.at(i, j) - row.mu) * row.rsigma * gamma_at(formula, j);
    }
  }
  return plus_row(std::move(y), formula.beta);
}

NormGradients norm_gradients(const NormFormula& formula, const Matrix& x, const Matrix& dy) {
  const auto count = static_cast<double>(x.cols);
  Matrix dx = zeros(x.rows, x.cols);
  Matrix dgamma_terms = dx;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const Statistics row = statistics(formula, x, i);
    const auto xhat = [&](std::int64_t j) { return (x.at(i, j) - row.mu) * row.rsigma; };
    double mean = 0.0;
    double projection = 0.0;
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double g = dy.at(i, j) * gamma_at(formula, j);
      mean += formula.type == NormType::layernorm ? g / count : 0.0;
      projection += g * xhat(j) / count;
      dgamma_terms.at(i, j) = dy.at(i, j) * xhat(j);
    }
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double g = dy.at(i, j) * gamma_at(formula, j);
      dx.at(i, j) = row.rsigma * (g - mean - xhat(j) * projection);
    }
  }
  return {std::move(dx), column_sums(dgamma_terms), column_sums(dy)};
}

Matrix activation(const ActivationType& type, const ClampedSwigluParams& params, const Matrix& x) {
  Matrix y = zeros(x.rows, x.cols / type.count());
  for (std::int64_t i = 0; i < y.rows; ++i) {
    for (std::int64_t j = 0; j < y.cols; ++j) {
      Real result = 1.0L;
      std::int64_t col = j;
      for (const ActivationPart& part : type.parts()) {
        result *= value(part.act(), Real{x.at(i, col)}, params);
        col += y.cols;
      }
      y.at(i, j) = static_cast<double>(result);
    }
  }
  return y;
}

Matrix activation_gradient(const ActivationType& type, const ClampedSwigluParams& params,
                           const Matrix& x, const Matrix& dy) {
  const std::span<const ActivationPart> parts = type.parts();
  Matrix dx = zeros(x.rows, x.cols);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t col = 0; col < x.cols; ++col) {
      const std::int64_t of = col / dy.cols;
      double result = dy.at(i, col % dy.cols);
      for (std::int64_t p = 0; p < type.count(); ++p) {
        const double at = x.at(i, p * dy.cols + col % dy.cols);
        const Act act = parts[static_cast<std::size_t>(p)].act();
        result *=
            p == of ? slope(act, at, params) : static_cast<double>(value(act, Real{at}, params));
      }
      dx.at(i, col) = result;
    }
  }
  return dx;
}

}  // namespace tape8::tools::gradcheck
