#pragma once

#include <cstdint>
#include <limits>

#include "backend/backend.hpp"
#include "backend/cuda/packed.hpp"
#include "backend/cuda/reduction.hpp"

namespace tape8::cuda {

// Scales of blocks, made as backend.hpp says, and decoded.

inline constexpr float kLargestFloat = std::numeric_limits<float>::max();
inline constexpr std::uint32_t kInfinityBits = 0x7F800000;

/// 2^(code - 127); the last code is NaN.
inline __device__ float decode_e8m0(std::uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return code == 0 ? __uint_as_float(1U << 22) : __uint_as_float(std::uint32_t{code} << 23);
}

inline __device__ float decode_e4m3(std::uint8_t code) {
  __nv_fp8_e4m3 value;
  value.__x = code;
  return static_cast<float>(value);
}

/// Scale `index` of those in memory.
inline __device__ float load_block_scale(ScalingMode mode, const void* scales, std::int64_t index) {
  switch (mode) {
    case ScalingMode::mxfp8_1d:
      return decode_e8m0(static_cast<const std::uint8_t*>(scales)[index]);
    case ScalingMode::float8_block_1d:
    case ScalingMode::float8_block_2d:
      return static_cast<const float*>(scales)[index];
    case ScalingMode::nvfp4_1d:
    case ScalingMode::nvfp4_2d:
      return decode_e4m3(static_cast<const std::uint8_t*>(scales)[index]);
    default:
      return 1.0F;
  }
}

/// A block's scale of MXFP8 or Float8 block: what is stored, and what the values are multiplied by.
struct Fp8BlockScale {
  float multiplier = 1.0F;
  std::uint8_t code = 0;   // mxfp8
  float scale_inv = 1.0F;  // float8_block
};

/// The smallest power of two that amax / largest does not exceed.
inline __device__ Fp8BlockScale mxfp8_scale(std::uint32_t amax, float largest) {
  const std::uint32_t bits = __float_as_uint(__uint_as_float(amax) / largest);
  std::uint32_t code = bits > 0x400000U ? (bits + 0x7FFFFFU) >> 23U : 0U;
  if (code > 254U) code = bits > kInfinityBits ? 255U : 254U;
  // Its inverse; 2^-127 is denormal.
  const std::uint32_t inverse = code < 254U ? (254U - code) << 23U : 0x400000U;
  const float multiplier =
      code == 255U ? std::numeric_limits<float>::quiet_NaN() : __uint_as_float(inverse);
  return {.multiplier = multiplier, .code = static_cast<std::uint8_t>(code)};
}

inline __device__ Fp8BlockScale float8_block_scale(std::uint32_t amax, float largest,
                                                   bool power_of_2) {
  float scale = 1.0F;
  if (amax > 0 && amax < kInfinityBits) {
    const float ratio = largest / __uint_as_float(amax);
    scale = ratio < kLargestFloat ? ratio : kLargestFloat;
  }
  if (power_of_2) scale = __uint_as_float(__float_as_uint(scale) & kInfinityBits);
  return {.multiplier = scale, .scale_inv = 1.0F / scale};
}

/// NVFP4's scales in a tensor of this amax.
struct Nvfp4Scales {
  float tensor_scale, tensor_scale_inv;

  explicit __device__ Nvfp4Scales(const Amax& amax) {
    const float ratio = 6.0F * 448.0F / amax.value;
    tensor_scale = ratio == 0.0F           ? 1.0F
                   : ratio > kLargestFloat ? kLargestFloat  // a NaN stays
                                           : ratio;
    tensor_scale_inv = 1.0F / tensor_scale;
  }

  /// A block's, as e4m3.
  __device__ std::uint8_t code(std::uint32_t amax) const {
    return narrow<__nv_fp8_e4m3>(__uint_as_float(amax) / 6.0F * tensor_scale).__x;
  }
  /// What its values are multiplied by: FLT_MAX for a scale of NaN too.
  __device__ float multiplier(std::uint8_t code) const {
    const float inverse = 1.0F / (decode_e4m3(code) * tensor_scale_inv);
    return inverse < kLargestFloat ? inverse : kLargestFloat;
  }
};

}  // namespace tape8::cuda
