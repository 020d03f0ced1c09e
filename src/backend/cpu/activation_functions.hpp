#pragma once

#include <tape8/core/activation_type.hpp>

#include "backend/cpu/element_formats.hpp"
#include "backend/cpu/vector_math.hpp"

namespace tape8::cpu {

/// A function's value and its derivative at the same x.
template <class V>
struct ValueAndDerivative {
  V value;
  V derivative;
};

// Each function gives its value alone, or value and derivative together: they share the costly
// part, and where only the derivative is used the compiler drops the value. Large |x| gives the
// limits, a NaN gives NaN, in both.

struct LinearFunction {
  template <class V>
  [[gnu::always_inline]] V value(const V& x) const {
    return x;
  }
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> both(const V& x) const {
    return {x, select(is_nan(x), x, V(1.0F))};
  }
};

/// 0.5 (1 + tanh(u)) = s(2u), which keeps its precision in the negative tail.
struct GeluFunction {
  static constexpr float kLinear = 1.59576912F;   // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.0713548163F;  // 0.044715 of it
  static constexpr float kLimit = 10.69F;         // 2u is +-104.23 there, and s 0 or 1

  template <class V>
  [[gnu::always_inline]] V value(const V& x) const {
    const V low = max(V(-kLimit), x);  // -Inf would give NaN
    const V bounded = min(V(kLimit), low);
    return low * sigmoid_value(twice_u(bounded, bounded * bounded));
  }
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> both(const V& x) const {
    const V low = max(V(-kLimit), x);
    const V bounded = min(V(kLimit), low);
    const V square = bounded * bounded;
    const Sigmoid<V> s = sigmoid(twice_u(bounded, square));
    const V slope = fma(square, V(3.0F * kCubic), V(kLinear));
    return {low * s.value, fma(bounded * slope, s.derivative, s.value)};
  }

 private:
  template <class V>
  [[gnu::always_inline]] static V twice_u(const V& x, const V& square) {
    return x * fma(square, V(kCubic), V(kLinear));
  }
};

/// x s(alpha x), alpha > 0.
struct SwishFunction {
  float alpha;

  template <class V>
  [[gnu::always_inline]] V value(const V& x) const {
    return finite_below(x) * sigmoid_value(within_sigmoid_limit(V(alpha) * x));
  }
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> both(const V& x) const {
    const V z = within_sigmoid_limit(V(alpha) * x);
    const Sigmoid<V> s = sigmoid(z);
    return {finite_below(x) * s.value, fma(z, s.derivative, s.value)};
  }

 private:
  /// -Inf would give Inf * 0.
  template <class V>
  [[gnu::always_inline]] static V finite_below(const V& x) {
    return max(V(-3.40282347e38F), x);
  }
};

struct SigmoidFunction {
  template <class V>
  [[gnu::always_inline]] V value(const V& x) const {
    return sigmoid_value(within_sigmoid_limit(x));
  }
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> both(const V& x) const {
    const Sigmoid<V> s = sigmoid(within_sigmoid_limit(x));
    return {s.value, s.derivative};
  }
};

struct ReluFunction {
  template <class V>
  [[gnu::always_inline]] V value(const V& x) const {
    return select(x <= V(0.0F), V(0.0F), x);
  }
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> both(const V& x) const {
    const V slope = select(is_nan(x), x, V(1.0F));
    return {value(x), select(x <= V(0.0F), V(0.0F), slope)};
  }
};

struct SquaredReluFunction {
  template <class V>
  [[gnu::always_inline]] V value(const V& x) const {
    return both(x).value;
  }
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> both(const V& x) const {
    const V positive = ReluFunction{}.value(x);
    return {positive * positive, positive + positive};
  }
};

struct ClampedSiluFunction {
  float limit;
  float alpha;

  template <class V>
  [[gnu::always_inline]] V value(const V& x) const {
    return SwishFunction{alpha}.value(min(V(limit), x));
  }
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> both(const V& x) const {
    const auto swish = SwishFunction{alpha}.both(min(V(limit), x));
    const V passed = select(x <= V(limit), swish.derivative, V(0.0F));
    return {swish.value, select(is_nan(x), x, passed)};
  }
};

struct ClampedLinearFunction {
  float limit;
  float offset;

  template <class V>
  [[gnu::always_inline]] V value(const V& x) const {
    return both(x).value;
  }
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> both(const V& x) const {
    const V clipped = max(V(-limit), min(V(limit), x));
    const V passed = select(x <= clipped, select(clipped <= x, V(1.0F), V(0.0F)), V(0.0F));
    return {clipped + V(offset), select(is_nan(x), x, passed)};
  }
};

/// Calls visit(function) with the function object of an Act.
template <class Visit>
auto visit_act(Act act, const ActivationParams& params, const Visit& visit) {
  const ClampedSwigluParams& clamped = params.clamped_swiglu;
  switch (act) {
    case Act::gelu:
      return visit(GeluFunction{});
    case Act::silu:
      return visit(SwishFunction{1.0F});
    case Act::sigmoid:
      return visit(SigmoidFunction{});
    case Act::relu:
      return visit(ReluFunction{});
    case Act::squared_relu:
      return visit(SquaredReluFunction{});
    case Act::quick_gelu:
      return visit(SwishFunction{1.702F});
    case Act::clamped_silu:
      return visit(ClampedSiluFunction{clamped.limit, clamped.alpha});
    case Act::clamped_linear:
      return visit(ClampedLinearFunction{clamped.limit, clamped.glu_linear_offset});
    case Act::linear:
      break;
  }
  return visit(LinearFunction{});
}

}  // namespace tape8::cpu
