#pragma once

#include <string_view>

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

/// How the values of a tensor share scales.
enum class ScalingMode {
  none,        ///< not quantized
  per_tensor,  ///< one f32 scale_inv for the tensor
};

/// Which axis a matmul contracts over: rowwise the last one, columnwise the leading ones.
enum class Usage { rowwise, columnwise };

/// What a quantizer's tensor is to a matmul.
enum class TensorRole { x, kernel, dgrad };

TAPE8_API std::string_view to_string(ScalingMode mode);
TAPE8_API std::string_view to_string(TensorRole role);

}  // namespace tape8
