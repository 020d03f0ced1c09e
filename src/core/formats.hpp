#pragma once

#include <cstdint>

#include <tape8/core/dtype.hpp>

namespace tape8 {

/// The bits of `value` in a float format of 16 bits or less, rounded once to nearest even. bf16 and
/// f16 overflow to Inf; e4m3, e5m2 and e2m1 saturate, Inf included. NaN becomes 0x7F in FP8, +6 in
/// e2m1, the positive quiet NaN in 16 bits. e8m0 rounds up to a power of two (negative values count
/// as zero).
std::uint16_t encode(DType dtype, double value);

/// The value of such bits; exact.
double decode(DType dtype, std::uint16_t code);

}  // namespace tape8
