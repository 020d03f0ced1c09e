#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include <tape8/core/dtype.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/scaling.hpp>

namespace tape8 {

/// No quantization: matmuls run in x's dtype.
struct HighPrecision {};

/// Which FP8 format each role is cast to.
enum class Fp8Format {
  hybrid,  ///< e4m3 for x and kernel, e5m2 for dgrad
  e4m3,    ///< e4m3 for all
};

/// What delayed scaling makes a scale from.
enum class AmaxComputeAlgo {
  max,          ///< the largest amax of the history
  most_recent,  ///< the last pass's amax
};

/// What dgrad and wgrad contract when it is not the casts that fprop used; dy is then not
/// quantized.
enum class BackwardOverride {
  none,            ///< the casts, and a cast of dy
  high_precision,  ///< x and kernel as they were before their casts: kept, or computed again
  dequantized,     ///< the values of the casts that fprop used (of block scales: in x's dtype)
};

/// FP8 with one scale a tensor, taken from the amax of earlier passes, so that cast and computation
/// are one pass over memory. The scale of the first pass is 1.
struct DelayedScaling {
  int margin = 0;  ///< the scale is divided by 2^margin
  Fp8Format format = Fp8Format::hybrid;
  std::int64_t amax_history_len = 1024;  ///< 1 to 2^20
  AmaxComputeAlgo amax_compute_algo = AmaxComputeAlgo::max;
  bool reduce_amax = true;  ///< across ranks; without a mesh it changes nothing
  BackwardOverride backward_override = BackwardOverride::none;
};

/// FP8 with one scale a tensor, taken from the tensor's own amax: a second pass over memory, and no
/// state.
struct CurrentScaling {
  Fp8Format format = Fp8Format::hybrid;
  bool power_of_2_scale = false;  ///< the mantissa bits of the scale are cleared
  BackwardOverride backward_override = BackwardOverride::none;
};

/// OCP Microscaling FP8 (MX specification v1.0): an e8m0 scale for 32 values along the contracted
/// axis, taken from their own amax. The casts for either usage are both made from the values in
/// high precision. No state.
struct MXFP8BlockScaling {
  Fp8Format format = Fp8Format::e4m3;
  BackwardOverride backward_override = BackwardOverride::none;
};

/// FP8 with an f32 scale for 128 values of x and dgrad along the contracted axis, and for 128 x 128
/// values of the kernel, taken from their own amax. No state.
struct Float8BlockScaling {
  Fp8Format format = Fp8Format::e4m3;
  bool power_of_2_scale = true;  ///< without it matmuls on the CPU run in f32
  BackwardOverride backward_override = BackwardOverride::none;
};

/// FP4 (e2m1) with an e4m3 scale for 16 values along the contracted axis and one f32 for the
/// tensor, both from the tensor itself: two passes over memory. Its state is the number of casts,
/// from which the random numbers of stochastic rounding follow.
struct NVFP4BlockScaling {
  bool kernel_2d_blocks = true;     ///< the kernel has a scale for 16 x 16 values
  bool hadamard_transform = true;   ///< what wgrad contracts is first transformed, 16 values a time
  bool stochastic_rounding = true;  ///< of dgrad
  std::uint64_t seed = 0;           ///< of stochastic rounding
  BackwardOverride backward_override = BackwardOverride::none;
};

/// How a model's matmuls are quantized.
using Recipe = std::variant<HighPrecision, DelayedScaling, CurrentScaling, MXFP8BlockScaling,
                            Float8BlockScaling, NVFP4BlockScaling>;

/// "high_precision", "delayed", "current", "mxfp8", "block", "nvfp4".
TAPE8_API std::string_view to_string(const Recipe& recipe);

/// The format that a recipe casts a role to, and how its values share scales. HighPrecision: f32
/// and none. Throws OptionError for options out of range.
TAPE8_API DType quantized_dtype(const Recipe& recipe, TensorRole role);
TAPE8_API ScalingMode scaling_mode(const Recipe& recipe, TensorRole role);

}  // namespace tape8
