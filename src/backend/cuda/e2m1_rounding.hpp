#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cuda/launch.hpp"
#include "backend/cuda/packed.hpp"
#include "core/philox.hpp"

namespace tape8::cuda {

// How values become e2m1 codes: 0, 0.5, 1, 1.5, 2, 3, 4, 6. Larger ones become 6, and NaN +6.

inline constexpr std::uint32_t kSixBits = 0x40C00000, kOneBits = 0x3F800000, kHalfBits = 0x3F000000;

inline __device__ std::uint32_t clamped_to_six(float x) {
  const std::uint32_t bits = __float_as_uint(x) & 0x7FFFFFFFU;
  return bits < kSixBits ? bits : kSixBits;
}

inline __device__ std::uint32_t e2m1_sign(float x) {
  return x == x ? __float_as_uint(x) >> 28U & 8U : 0U;
}

/// The exponent that values of these bits have as e2m1: at least that of 1.
inline __device__ std::uint32_t e2m1_exponent(std::uint32_t bits) {
  const std::uint32_t exponent = bits >> 23U;
  return exponent < 127U ? 127U : exponent;
}

/// The code of the nearest value, ties to even.
inline __device__ std::uint32_t nearest_e2m1(float x) {
  const std::uint32_t bits = clamped_to_six(x);
  const std::uint32_t exponent = e2m1_exponent(bits);
  // f32 addition rounds: next to 1.5 * 2^(e + 22) the last place is e2m1's, 2^(e - 1).
  const float rounder = __uint_as_float((exponent + 22U) << 23U | 0x400000U);
  const std::uint32_t halves = __float_as_uint(__uint_as_float(bits) + rounder) & 7U;
  return (halves + 2U * (exponent - 127U)) | e2m1_sign(x);
}

/// The code of the value below, or of the one above where x's place between them exceeds
/// (random + 0.5) 2^-16.
inline __device__ std::uint32_t random_e2m1(float x, std::uint32_t random) {
  const std::uint32_t bits = clamped_to_six(x);
  const std::uint32_t below = bits >= kOneBits    ? bits & ~0x3FFFFFU
                              : bits >= kHalfBits ? kHalfBits
                                                  : 0U;
  const std::uint32_t code = bits >= kOneBits    ? (bits >> 22U) - ((kOneBits >> 22U) - 2U)
                             : bits >= kHalfBits ? 1U
                                                 : 0U;
  // 2^(1 - e): neighbours are 2^(e - 1) apart.
  const float per_step = __uint_as_float((255U - e2m1_exponent(bits)) << 23U);
  const float place = (__uint_as_float(bits) - __uint_as_float(below)) * per_step;
  const float uniform = __uint_as_float(kOneBits | random << 7U) - (1.0F - 0x1p-17F);
  return (place > uniform ? code + 1U : code) | e2m1_sign(x);
}

/// The random bits of kVector elements that follow each other, two to a word, the first one low.
inline __device__ void draw_random_bits(const StochasticRounding& rounding, bool columnwise,
                                        std::int64_t first, std::uint32_t (&words)[kVector / 2]) {
  constexpr int kBlock = 8;  // elements of a block of the generator
  const std::uint64_t block = static_cast<std::uint64_t>(first) / kBlock;
  const unsigned skipped = static_cast<unsigned>(first % kBlock);
  std::uint32_t drawn[12] = {};
  TAPE8_UNROLL
  for (unsigned i = 0; i < 3; ++i) {
    if (i == 2 && skipped == 0) break;
    const std::uint64_t counter = block + i;
    const auto four = philox4x32(
        rounding.key, {static_cast<std::uint32_t>(counter),
                       static_cast<std::uint32_t>(counter >> 32U) | (columnwise ? 0x80000000U : 0U),
                       static_cast<std::uint32_t>(rounding.cast),
                       static_cast<std::uint32_t>(rounding.cast >> 32U)});
    TAPE8_UNROLL
    for (unsigned k = 0; k < 4; ++k) drawn[4 * i + k] = four[k];
  }
  TAPE8_UNROLL
  for (int i = 0; i < 10; ++i) drawn[i] = (skipped & 4U) != 0 ? drawn[i + 2] : drawn[i];
  TAPE8_UNROLL
  for (int i = 0; i < 9; ++i) drawn[i] = (skipped & 2U) != 0 ? drawn[i + 1] : drawn[i];
  TAPE8_UNROLL
  for (int i = 0; i < 8; ++i) {
    words[i] = (skipped & 1U) != 0 ? drawn[i] >> 16U | drawn[i + 1] << 16U : drawn[i];
  }
}

}  // namespace tape8::cuda
