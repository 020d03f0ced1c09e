#pragma once

namespace tape8::cpu {

/// The sum of whole steps n and a rest, e^x = 2^n e^r, is what the functions below make of x:
/// adding 1.5 * 2^23 rounds to a whole n.
inline constexpr float kRoundToWhole = 12582912.0F;
inline constexpr float kLog2E = 1.44269504F;

/// e^(sign r) for r in [-ln2/2, ln2/2], sign +-1: 1 + sign r + r^2 p, p a minimax polynomial.
template <int kSign, class F>
[[gnu::always_inline]] inline F exp_of_rest(const F& r) {
  constexpr float sign = kSign;
  F p = fma(r, F(0x1.6A23D0p-10F), F(sign * 0x1.123A20p-7F));
  p = fma(r, p, F(0x1.5558F2p-5F));
  p = fma(r, p, F(sign * 0x1.555492p-3F));
  p = fma(r, p, F(0x1.FFFFFCp-2F));
  p = fma(r, p, F(sign));
  return fma(r, p, F(1.0F));
}

/// e^x within 1.01 ulp, denormal results rounded once; NaN stays. Past 88.7 it is Inf, below -104
/// 0.
template <class F>
[[gnu::always_inline]] inline F exp(const F& x) {
  // A NaN is the second operand and wins.
  const F bounded = max(F(-110.0F), min(F(90.0F), x));
  const F n = fma(bounded, F(kLog2E), F(kRoundToWhole)) - F(kRoundToWhole);
  // n times the first part of ln2 is exact.
  const F r = fma(n, F(-0x1.7F7D1Cp-20F), fma(n, F(-0x1.62E4p-1F), bounded));
  return scale_exponent(exp_of_rest<1>(r), n);
}

// The logistic function s(x) = c / (c + c e^-x), where c = 2^-23 keeps c e^-x finite for all x
// whose s(x) is a number that f32 has. Of other x s is 0 or 1.

inline constexpr float kSigmoidLimit = 104.25F;
inline constexpr float kSigmoidUnit = 0x1p-23F;  // c

template <class F>
[[gnu::always_inline]] inline F within_sigmoid_limit(const F& x) {
  return max(F(-kSigmoidLimit), min(F(kSigmoidLimit), x));
}

/// c e^-x for x within the limit.
template <class F>
[[gnu::always_inline]] inline F sigmoid_term(const F& x) {
  const F rounded = fma(x, F(-kLog2E), F(kRoundToWhole));
  // e^-x = 2^n e^-r. With ln2 in one part r errs by 2e-9 n, an ulp of the result for x = 40.
  const F r = fma(rounded - F(kRoundToWhole), F(0.693147182F), x);
  return scale_exponent(exp_of_rest<-1>(r), rounded - F(kRoundToWhole + 23.0F));
}

/// s(x) for x within the limit.
template <class F>
[[gnu::always_inline]] inline F sigmoid_value(const F& x) {
  const F c(kSigmoidUnit);
  return c / (c + sigmoid_term(x));
}

/// The same with what the derivative needs.
template <class F>
struct Sigmoid {
  F value;
  F derivative;  // s(x) (1 - s(x)): below 2^-103 it loses precision, from x = 88 on it is 0
};

template <class F>
[[gnu::always_inline]] inline Sigmoid<F> sigmoid(const F& x) {
  const F c(kSigmoidUnit), t = sigmoid_term(x);
  const F inverse = F(1.0F) / (c + t);
  const F value = c * inverse;
  return {value, t * inverse * value};
}

}  // namespace tape8::cpu
