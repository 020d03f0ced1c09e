#include <array>

#include <tape8/quantize/recipe.hpp>

#include "core/fail.hpp"

namespace tape8 {
namespace {

constexpr int kMaxMargin = 126;
constexpr std::int64_t kMaxAmaxHistory = 1 << 20;  // each pass reads all of it

DType fp8_dtype(std::string_view recipe, Fp8Format format, TensorRole role) {
  switch (format) {
    case Fp8Format::hybrid:
      return role == TensorRole::dgrad ? DType::e5m2 : DType::e4m3;
    case Fp8Format::e4m3:
      return DType::e4m3;
  }
  fail<OptionError>("{}: format must be hybrid or e4m3: got {}", recipe, static_cast<int>(format));
}

struct DTypeOf {
  TensorRole role;

  DType operator()(const HighPrecision&) const { return DType::f32; }
  DType operator()(const DelayedScaling& recipe) const {
    if (recipe.amax_history_len < 1 || recipe.amax_history_len > kMaxAmaxHistory) {
      fail<OptionError>(
          "delayed_scaling: amax_history_len must be at least 1 and at most {}: got {}",
          kMaxAmaxHistory, recipe.amax_history_len);
    }
    if (recipe.margin < -kMaxMargin || recipe.margin > kMaxMargin) {
      fail<OptionError>("delayed_scaling: margin must lie within +-{}: got {}", kMaxMargin,
                        recipe.margin);
    }
    return fp8_dtype("delayed_scaling", recipe.format, role);
  }
  DType operator()(const CurrentScaling& recipe) const {
    return fp8_dtype("current_scaling", recipe.format, role);
  }
  DType operator()(const MXFP8BlockScaling& recipe) const {
    return fp8_dtype("mxfp8_block_scaling", recipe.format, role);
  }
  DType operator()(const Float8BlockScaling& recipe) const {
    return fp8_dtype("float8_block_scaling", recipe.format, role);
  }
  DType operator()(const NVFP4BlockScaling&) const { return DType::e2m1; }
};

struct ScalingModeOf {
  bool kernel;

  ScalingMode operator()(const HighPrecision&) const { return ScalingMode::none; }
  ScalingMode operator()(const DelayedScaling&) const { return ScalingMode::per_tensor; }
  ScalingMode operator()(const CurrentScaling&) const { return ScalingMode::per_tensor; }
  ScalingMode operator()(const MXFP8BlockScaling&) const { return ScalingMode::mxfp8_1d; }
  ScalingMode operator()(const Float8BlockScaling&) const {
    return kernel ? ScalingMode::float8_block_2d : ScalingMode::float8_block_1d;
  }
  ScalingMode operator()(const NVFP4BlockScaling& recipe) const {
    return kernel && recipe.kernel_2d_blocks ? ScalingMode::nvfp4_2d : ScalingMode::nvfp4_1d;
  }
};

}  // namespace

std::string_view to_string(const Recipe& recipe) {
  constexpr std::array<std::string_view, std::variant_size_v<Recipe>> kNames{
      "high_precision", "delayed", "current", "mxfp8", "block", "nvfp4"};
  return kNames[recipe.index()];
}

DType quantized_dtype(const Recipe& recipe, TensorRole role) {
  return std::visit(DTypeOf{role}, recipe);
}

ScalingMode scaling_mode(const Recipe& recipe, TensorRole role) {
  return std::visit(ScalingModeOf{role == TensorRole::kernel}, recipe);
}

}  // namespace tape8
