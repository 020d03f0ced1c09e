#pragma once

#include <cstdint>

#include <tape8/core/activation_type.hpp>

#include "backend/cuda/math.hpp"

namespace tape8::cuda {

// Values and derivatives of activation functions over vectors. Large |x| gives the limits, a NaN
// gives NaN, in both.

template <class Real>
struct Sigmoid {
  Real value, derivative;
};

/// With t = e^-|x| nothing overflows: s = 1 / (1 + t), or t / (1 + t) for negative x.
template <class Real>
__device__ Sigmoid<Real> sigmoid(Real x) {
  const Real t = exponential(x < 0 ? x : -x);
  const Real q = 1 / (1 + t);
  return {x < 0 ? t * q : q, t * q * q};
}

/// x within [-limit, limit]; NaN stays.
template <class Real>
__device__ Real bounded(Real x, Real limit) {
  return x < -limit ? -limit : x > limit ? limit : x;
}

template <class Real>
struct Slope {
  Real value, derivative;
};

template <class Real>
__device__ Slope<Real> gelu_of(Real x) {
  // 2 sqrt(2 / pi), and 0.044715 of it.
  constexpr Real kLinear = static_cast<Real>(1.5957691216057308);
  constexpr Real kCubic = static_cast<Real>(0.07135481627260025);
  constexpr Real kLimit = 64;  // s is 0 or 1 long before
  const Real low = x < -kLimit ? -kLimit : x;
  const Real b = bounded(x, kLimit);
  const Real square = b * b;
  const Sigmoid<Real> s = sigmoid(b * (square * kCubic + kLinear));
  return {low * s.value, b * (square * (3 * kCubic) + kLinear) * s.derivative + s.value};
}

/// x s(alpha x), alpha > 0.
template <class Real>
__device__ Slope<Real> swish(Real x, Real alpha) {
  constexpr Real kLimit = 800;                                  // e^-800 is 0
  constexpr Real kLowest = static_cast<Real>(-3.40282347e38F);  // -Inf would give Inf * 0
  const Real z = bounded(alpha * x, kLimit);
  const Sigmoid<Real> s = sigmoid(z);
  return {(x < kLowest ? kLowest : x) * s.value, z * s.derivative + s.value};
}

/// values[i] = act(x[i]), derivatives[i] = act'(x[i]). The function is the same for all threads.
template <class Real, int N>
__device__ void evaluate(Act act, const ClampedSwigluParams& params, const Real (&x)[N],
                         Real (&values)[N], Real (&derivatives)[N]) {
  const auto each = [&](const auto& function) {
    for (int i = 0; i < N; ++i) {
      const Slope<Real> result = function(x[i]);
      values[i] = result.value;
      derivatives[i] = result.derivative;
    }
  };
  const Real limit = params.limit;
  switch (act) {
    case Act::linear:
      return each([](Real v) { return Slope<Real>{v, v == v ? Real{1} : v}; });
    case Act::gelu:
      return each([](Real v) { return gelu_of(v); });
    case Act::silu:
      return each([](Real v) { return swish(v, Real{1}); });
    case Act::sigmoid:
      return each([](Real v) {
        const Sigmoid<Real> s = sigmoid(v);
        return Slope<Real>{s.value, s.derivative};
      });
    case Act::relu:
      return each([](Real v) {
        return v <= 0 ? Slope<Real>{0, 0} : Slope<Real>{v, v == v ? Real{1} : v};
      });
    case Act::squared_relu:
      return each([](Real v) {
        const Real positive = v <= 0 ? Real{0} : v;
        return Slope<Real>{positive * positive, positive + positive};
      });
    case Act::quick_gelu:
      return each([](Real v) { return swish(v, static_cast<Real>(1.702)); });
    case Act::clamped_silu:
      return each([&](Real v) {
        const Slope<Real> s = swish(v > limit ? limit : v, static_cast<Real>(params.alpha));
        return Slope<Real>{s.value, v > limit ? Real{0} : s.derivative};
      });
    case Act::clamped_linear:
      return each([&](Real v) {
        const Real clipped = bounded(v, limit);
        const Real slope = v != v ? v : static_cast<Real>(v == clipped ? 1 : 0);
        return Slope<Real>{clipped + static_cast<Real>(params.glu_linear_offset), slope};
      });
  }
}

}  // namespace tape8::cuda
