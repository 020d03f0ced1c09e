#pragma once

#include <cstdint>
#include <string_view>

#include <tape8/core/dtype.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

/// Largest magnitude of the values that share a scale; NaN if one of them is NaN.
struct Amax {
  float value = 0.0F;
  friend bool operator==(const Amax&, const Amax&) = default;
};

/// Factor that multiplies a value BEFORE its cast to a low-precision format.
struct Scale {
  float value = 1.0F;
  friend bool operator==(const Scale&, const Scale&) = default;
};

/// Factor that multiplies a low-precision value AFTER it is decoded.
struct ScaleInv {
  float value = 1.0F;
  friend bool operator==(const ScaleInv&, const ScaleInv&) = default;
};

constexpr ScaleInv inverse(Scale scale) { return {1.0F / scale.value}; }

/// How the values of a tensor share scales. "Along" is the axis that a matmul contracts, so a cast
/// with a block mode serves the usage that it was made for.
enum class ScalingMode {
  none,             ///< not quantized
  per_tensor,       ///< one f32 scale_inv for the tensor
  mxfp8_1d,         ///< an e8m0 for 32 values along
  float8_block_1d,  ///< an f32 for 128 values along
  float8_block_2d,  ///< an f32 for 128 x 128 values
  nvfp4_1d,         ///< an e4m3 for 16 values along, and one f32 for the tensor
  nvfp4_2d,         ///< an e4m3 for 16 x 16 values, and one f32 for the tensor
};

/// The block of values that shares a scale; the last one of an axis may be short.
struct ScalingBlock {
  std::int64_t along = 1;   ///< on the contracted axis
  std::int64_t across = 1;  ///< on the other one
};

/// 0 x 0 for modes without blocks.
constexpr ScalingBlock scaling_block(ScalingMode mode) {
  switch (mode) {
    case ScalingMode::none:
    case ScalingMode::per_tensor:
      return {0, 0};
    case ScalingMode::mxfp8_1d:
      return {32, 1};
    case ScalingMode::float8_block_1d:
      return {128, 1};
    case ScalingMode::float8_block_2d:
      return {128, 128};
    case ScalingMode::nvfp4_1d:
      return {16, 1};
    case ScalingMode::nvfp4_2d:
      return {16, 16};
  }
  return {0, 0};
}

constexpr bool is_block_scaled(ScalingMode mode) { return scaling_block(mode).along != 0; }

constexpr bool is_nvfp4(ScalingMode mode) {
  return mode == ScalingMode::nvfp4_1d || mode == ScalingMode::nvfp4_2d;
}

/// The type of a block mode's scales, and of per_tensor's.
constexpr DType scale_dtype(ScalingMode mode) {
  if (mode == ScalingMode::mxfp8_1d) return DType::e8m0;
  return is_nvfp4(mode) ? DType::e4m3 : DType::f32;
}

/// Which axis a matmul contracts over: rowwise the last one, columnwise the leading ones.
enum class Usage { rowwise, columnwise };

/// What a quantizer's tensor is to a matmul.
enum class TensorRole { x, kernel, dgrad };

TAPE8_API std::string_view to_string(ScalingMode mode);
TAPE8_API std::string_view to_string(TensorRole role);

}  // namespace tape8
