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
  high_precision,  ///< x and kernel as they were before their casts: takes their memory
  dequantized,     ///< the casts' values
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

/// How a model's matmuls are quantized.
using Recipe = std::variant<HighPrecision, DelayedScaling, CurrentScaling>;

/// "high_precision", "delayed", "current".
TAPE8_API std::string_view to_string(const Recipe& recipe);

}  // namespace tape8
