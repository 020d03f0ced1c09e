#pragma once

#include "bench/peak.hpp"

namespace tape8::tools::bench {

/// Sums that do not wait for each other: more than an operation's latency times its rate.
inline constexpr int kPeakSums = 12;

/// Math: Vector, set(float), multiply_add(a, b, sum), and keep(sum), which counts as a use of it.
/// The sums differ from the start, so that no two of them can be taken for one.
template <class Math>
void run_peak_loop(std::int64_t steps) {
  const typename Math::Vector a = Math::set(0.5F);
  const typename Math::Vector b = Math::set(0.25F);
  typename Math::Vector sums[kPeakSums];
  for (int i = 0; i < kPeakSums; ++i) sums[i] = Math::set(static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kPeakSums; ++i) sums[i] = Math::multiply_add(a, b, sums[i]);
#pragma GCC unroll 12
    for (int i = 0; i < kPeakSums; ++i) Math::keep(sums[i]);
  }
}

template <class Math>
constexpr PeakLoop make_peak_loop() {
  return {run_peak_loop<Math>, 2.0 * Math::kProducts * kPeakSums};
}

}  // namespace tape8::tools::bench
