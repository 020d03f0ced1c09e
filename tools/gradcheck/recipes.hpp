#pragma once

#include <span>
#include <string>

#include <tape8/tape8.hpp>

namespace tape8::tools::gradcheck {

/// A recipe as cases run it, with what its casts are to be: written down here rather than asked of
/// the library.
struct RecipeCase {
  std::string name;  ///< "delayed", "current_dequantized"
  Recipe recipe;
  DType forward = DType::e4m3;   ///< what x and kernel are cast to
  DType backward = DType::e4m3;  ///< what dy is cast to
  /// The f32 result of a norm or an activation is cast; else what it is in x's dtype.
  bool casts_f32 = false;
  bool stochastic = false;  ///< dy is rounded stochastically
  /// The scale leaves no room for values above those of the pass before.
  bool without_headroom = false;
  BackwardOverride backward_override = BackwardOverride::none;

  bool quantizes() const { return !std::holds_alternative<HighPrecision>(recipe); }
};

/// No quantization.
const RecipeCase& high_precision();

/// All that quantize.
std::span<const RecipeCase> quantized_recipes();
/// Those without a backward override, which a forward has no use for.
std::span<const RecipeCase> forward_recipes();

/// A recipe's quantizers with random numbers that do not depend on which others were made before.
QuantizerSet make_quantizers(const RecipeCase& recipe);

}  // namespace tape8::tools::gradcheck
