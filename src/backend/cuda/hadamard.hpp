#pragma once

#include "backend/cuda/launch.hpp"

namespace tape8::cuda {

// The randomized 16-point Hadamard transform, with the CPU's arithmetic (cpu/hadamard.hpp).

inline constexpr int kHadamardSize = 16;

/// -x at the places where the transform's fixed signs are negative.
inline __device__ float with_hadamard_sign(float x, int place) {
  constexpr unsigned kNegative = 0b1101'0111'1110'1000;
  return (kNegative >> place & 1U) != 0 ? -x : x;
}

/// x becomes H16 / 4 of it, Sylvester's, with the signs flipped first.
inline __device__ void hadamard_transform(float (&x)[kHadamardSize]) {
  TAPE8_UNROLL
  for (int i = 0; i < kHadamardSize; ++i) x[i] = with_hadamard_sign(x[i], i);
  TAPE8_UNROLL
  for (int stride = 1; stride < kHadamardSize; stride *= 2) {
    TAPE8_UNROLL
    for (int i = 0; i < kHadamardSize / 2; ++i) {
      const int at = i / stride * (2 * stride) + i % stride;
      const float a = x[at], b = x[at + stride];
      x[at] = a + b;
      x[at + stride] = a - b;
    }
  }
  TAPE8_UNROLL
  for (float& value : x) value *= 0.25F;
}

/// One value of the inverse. Of each pair in a step it needs the sum or the difference, as a bit of
/// its place says. x is overwritten.
inline __device__ float undo_hadamard_transform(float (&x)[kHadamardSize], int place) {
  int bits = place;
  TAPE8_UNROLL
  for (int pairs = kHadamardSize / 2; pairs > 0; pairs /= 2) {
    TAPE8_UNROLL
    for (int i = 0; i < pairs; ++i) {
      x[i] = bits % 2 == 0 ? x[2 * i] + x[2 * i + 1] : x[2 * i] - x[2 * i + 1];
    }
    bits /= 2;
  }
  return with_hadamard_sign(x[0] * 0.25F, place);
}

}  // namespace tape8::cuda
