#pragma once

#include <cstdint>

namespace tape8::cpu {

// About what an element costs on the slowest instruction set with vectors, in nanoseconds.
inline constexpr double kCastCost = 0.15;
inline constexpr double kBlockCastCost = 0.3;  // a usage
inline constexpr double kActivationCost = 0.4;
inline constexpr double kActivationBackwardCost = 0.6;
inline constexpr double kNormCost = 0.3;
inline constexpr double kNormBackwardCost = 0.6;
inline constexpr double kSoftmaxCost = 0.6;
inline constexpr double kOptimizerCost = 0.8;
inline constexpr double kDropoutCost = 4.0;

inline double row_cost(double element_cost, std::int64_t cols) {
  return element_cost * static_cast<double>(cols);
}

}  // namespace tape8::cpu
