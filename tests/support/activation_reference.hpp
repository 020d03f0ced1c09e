#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <tape8/core/activation_type.hpp>

#include "support/values.hpp"

namespace tape8::test {

/// One part of an activation, in more than double precision so that differences of it are exact to
/// double.
inline long double act_value(Act act, long double x, const ClampedSwigluParams& params) {
  const auto sigmoid_of = [](long double v) { return 1.0L / (1.0L + std::exp(-v)); };
  switch (act) {
    case Act::linear:
      return x;
    case Act::gelu:
      return 0.5L * x * (1.0L + std::tanh(0.79788456080286535588L * (x + 0.044715L * x * x * x)));
    case Act::silu:
      return x * sigmoid_of(x);
    case Act::sigmoid:
      return sigmoid_of(x);
    case Act::relu:
      return std::max(x, 0.0L);
    case Act::squared_relu:
      return std::max(x, 0.0L) * std::max(x, 0.0L);
    case Act::quick_gelu:
      return x * sigmoid_of(1.702L * x);
    case Act::clamped_silu: {
      const long double c = std::min(x, static_cast<long double>(params.limit));
      return c * sigmoid_of(static_cast<long double>(params.alpha) * c);
    }
    case Act::clamped_linear: {
      const auto limit = static_cast<long double>(params.limit);
      return std::clamp(x, -limit, limit) + static_cast<long double>(params.glu_linear_offset);
    }
  }
  return 0.0L;
}

/// Its derivative away from kinks, by a central difference good to 1e-12.
inline double act_slope(Act act, double x, const ClampedSwigluParams& params) {
  constexpr long double kStep = 1e-6L;
  const auto at = static_cast<long double>(x);
  return static_cast<double>(
      (act_value(act, at + kStep, params) - act_value(act, at - kStep, params)) / (2.0L * kStep));
}

/// The product of an activation's parts over the last axis of x [rows, parts * cols].
inline Values activation(const ActivationType& type, const ClampedSwigluParams& params,
                         const Values& x, std::int64_t rows, std::int64_t cols) {
  const std::int64_t parts = type.count();
  Values y(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    double product = 1.0;
    for (std::int64_t p = 0; p < parts; ++p) {
      const auto index = static_cast<std::size_t>((i / cols * parts + p) * cols + i % cols);
      product *= static_cast<double>(act_value(type.parts()[static_cast<std::size_t>(p)].act(),
                                               static_cast<long double>(x[index]), params));
    }
    y[static_cast<std::size_t>(i)] = product;
  }
  return y;
}

/// Its gradient in x for a cotangent dy.
inline Values activation_gradient(const ActivationType& type, const ClampedSwigluParams& params,
                                  const Values& x, const Values& dy, std::int64_t rows,
                                  std::int64_t cols) {
  const std::int64_t parts = type.count();
  Values dx(x.size());
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const auto at = [&](std::int64_t p) {
      return static_cast<std::size_t>((i / cols * parts + p) * cols + i % cols);
    };
    for (std::int64_t p = 0; p < parts; ++p) {
      double product = dy[static_cast<std::size_t>(i)];
      for (std::int64_t q = 0; q < parts; ++q) {
        const Act act = type.parts()[static_cast<std::size_t>(q)].act();
        product *=
            q == p
                ? act_slope(act, x[at(q)], params)
                : static_cast<double>(act_value(act, static_cast<long double>(x[at(q)]), params));
      }
      dx[at(p)] = product;
    }
  }
  return dx;
}

}  // namespace tape8::test
