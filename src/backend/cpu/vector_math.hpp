#pragma once

namespace tape8::cpu {

/// e^x for x from -150 to 90, within 1.01 ulp, denormal results rounded once; NaN stays. Below -104
/// it is 0.
template <class F>
[[gnu::always_inline]] inline F exp_within(const F& x) {
  // x = n ln2 + r: adding 1.5 * 2^23 rounds to a whole n; n times the first part of ln2 is exact.
  const F round(12582912.0F);
  const F n = fma(x, F(1.44269504F), round) - round;
  const F r = fma(n, F(-0x1.7F7D1Cp-20F), fma(n, F(-0x1.62E4p-1F), x));
  // Minimax polynomial of (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2].
  F p = fma(r, F(0x1.6A23D0p-10F), F(0x1.123A20p-7F));
  p = fma(r, p, F(0x1.5558F2p-5F));
  p = fma(r, p, F(0x1.555492p-3F));
  p = fma(r, p, F(0x1.FFFFFCp-2F));
  p = fma(r * r, p, r) + F(1.0F);
  return scale_exponent(p, n);
}

/// e^x for any x; past 88.7 it is Inf.
template <class F>
[[gnu::always_inline]] inline F exp(const F& x) {
  // A NaN is the second operand and wins.
  return exp_within(max(F(-110.0F), min(F(90.0F), x)));
}

/// The logistic function and what its derivative needs.
template <class F>
struct Sigmoid {
  F value;       // s(x)
  F derivative;  // s(x) (1 - s(x)), without cancellation
};

/// Of x from -150 to 150: from +-104 on it is 0 or 1. With t = e^-|x| nothing overflows: s = 1 / (1
/// + t), or t / (1 + t) for negative x.
template <class F>
[[gnu::always_inline]] inline Sigmoid<F> sigmoid_within(const F& x) {
  const F zero(0.0F), one(1.0F);
  const F t = exp_within(min(x, zero - x));
  const F q = one / (one + t);
  const F tq = t * q;
  return {select(x <= zero, tq, q), tq * q};
}

/// Of any x.
template <class F>
[[gnu::always_inline]] inline Sigmoid<F> sigmoid(const F& x) {
  return sigmoid_within(max(F(-110.0F), min(F(110.0F), x)));
}

}  // namespace tape8::cpu
