#include "gradcheck/recipes.hpp"

#include <utility>
#include <variant>
#include <vector>

namespace tape8::tools::gradcheck {
namespace {

std::vector<RecipeCase> make_forward_recipes() {
  constexpr std::int64_t kHistory = 4;
  return {
      {.name = "delayed",
       .recipe = DelayedScaling{.margin = 1, .amax_history_len = kHistory},
       .backward = DType::e5m2,
       .casts_f32 = true},
      {.name = "delayed_e4m3",
       .recipe = DelayedScaling{.format = Fp8Format::e4m3, .amax_history_len = kHistory},
       .casts_f32 = true,
       .without_headroom = true},
      {.name = "current", .recipe = CurrentScaling{}, .backward = DType::e5m2},
      {.name = "current_power_of_2",
       .recipe = CurrentScaling{.power_of_2_scale = true},
       .backward = DType::e5m2},
      {.name = "mxfp8", .recipe = MXFP8BlockScaling{}, .casts_f32 = true},
      {.name = "mxfp8_hybrid",
       .recipe = MXFP8BlockScaling{.format = Fp8Format::hybrid},
       .backward = DType::e5m2,
       .casts_f32 = true},
      {.name = "block", .recipe = Float8BlockScaling{}, .casts_f32 = true},
      {.name = "block_any_scale",
       .recipe = Float8BlockScaling{.power_of_2_scale = false},
       .casts_f32 = true},
      {.name = "nvfp4",
       .recipe = NVFP4BlockScaling{},
       .forward = DType::e2m1,
       .backward = DType::e2m1,
       .stochastic = true},
      {.name = "nvfp4_plain",
       .recipe = NVFP4BlockScaling{.kernel_2d_blocks = false,
                                   .hadamard_transform = false,
                                   .stochastic_rounding = false},
       .forward = DType::e2m1,
       .backward = DType::e2m1},
  };
}

struct SetOverride {
  BackwardOverride backward_override;

  void operator()(HighPrecision&) const {}
  template <class R>
  void operator()(R& recipe) const {
    recipe.backward_override = backward_override;
  }
};

std::vector<RecipeCase> make_quantized_recipes() {
  std::vector<RecipeCase> all = make_forward_recipes();
  for (const RecipeCase& base : forward_recipes()) {
    for (const auto& [name, backward_override] :
         {std::pair{"high_precision", BackwardOverride::high_precision},
          std::pair{"dequantized", BackwardOverride::dequantized}}) {
      if (base.name != tape8::to_string(base.recipe)) continue;  // not of its variants
      RecipeCase overridden = base;
      overridden.name += std::string("_") + name;
      overridden.backward_override = backward_override;
      std::visit(SetOverride{backward_override}, overridden.recipe);
      all.push_back(std::move(overridden));
    }
  }
  return all;
}

}  // namespace

const RecipeCase& high_precision() {
  static const RecipeCase recipe{.name = "high_precision", .recipe = HighPrecision{}};
  return recipe;
}

std::span<const RecipeCase> quantized_recipes() {
  static const std::vector<RecipeCase> recipes = make_quantized_recipes();
  return recipes;
}

std::span<const RecipeCase> forward_recipes() {
  static const std::vector<RecipeCase> recipes = make_forward_recipes();
  return recipes;
}

QuantizerSet make_quantizers(const RecipeCase& recipe) {
  QuantizerSet set = make_quantizer_set(recipe.recipe);
  if (recipe.stochastic) set.dgrad.set_random_state({.stream = 1, .casts = 0});
  return set;
}

}  // namespace tape8::tools::gradcheck
