#pragma once

#include "bench/peak.hpp"

namespace tape8::tools::bench {

/// Sums that do not wait for each other: more than an operation's latency times its rate.
inline constexpr int kPeakSums = 12;

/// Math: Vector, set(float) and multiply_add(a, b, sum). The sums differ from the start, so that no
/// two of them can be taken for one, and loops are unrolled, so that all of them stay in registers.
template <class Math>
void run_peak_loop(std::int64_t steps) {
  using Vector = typename Math::Vector;
  const Vector a = Math::set(0.5F);
  const Vector b = Math::set(0.25F);
  Vector sums[kPeakSums];
#pragma GCC unroll 12
  for (int i = 0; i < kPeakSums; ++i) sums[i] = Math::set(static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kPeakSums; ++i) sums[i] = Math::multiply_add(a, b, sums[i]);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kPeakSums; ++i) {
    const Vector result = sums[i];
    asm volatile("" : : "m"(result));  // counts as a use
  }
}

template <class Math>
constexpr PeakLoop make_peak_loop() {
  return {run_peak_loop<Math>, 2.0 * Math::kProducts * kPeakSums};
}

}  // namespace tape8::tools::bench
