#include "gradcheck/recipes.hpp"

#include <algorithm>
#include <vector>

namespace tape8::tools::gradcheck {
namespace {

template <class R>
RecipeCase overridden(RecipeCase base, BackwardOverride override_with) {
  std::get<R>(base.recipe).backward_override = override_with;
  base.backward_override = override_with;
  base.name +=
      override_with == BackwardOverride::high_precision ? "_high_precision" : "_dequantized";
  return base;
}

std::vector<RecipeCase> make_recipes() {
  const RecipeCase delayed{.name = "delayed",
                           .recipe = DelayedScaling{.amax_history_len = 4},
                           .backward = DType::e5m2,
                           .casts_f32 = true};
  const RecipeCase delayed_e4m3{
      .name = "delayed_e4m3",
      .recipe = DelayedScaling{.format = Fp8Format::e4m3, .amax_history_len = 4},
      .casts_f32 = true};
  const RecipeCase current{.name = "current", .recipe = CurrentScaling{}, .backward = DType::e5m2};
  const RecipeCase current_power_of_2{.name = "current_power_of_2",
                                      .recipe = CurrentScaling{.power_of_2_scale = true},
                                      .backward = DType::e5m2};
  std::vector<RecipeCase> all{delayed, delayed_e4m3, current, current_power_of_2};
  all.push_back(overridden<DelayedScaling>(delayed, BackwardOverride::high_precision));
  all.push_back(overridden<DelayedScaling>(delayed, BackwardOverride::dequantized));
  all.push_back(overridden<CurrentScaling>(current, BackwardOverride::high_precision));
  all.push_back(overridden<CurrentScaling>(current, BackwardOverride::dequantized));
  return all;
}

}  // namespace

const RecipeCase& high_precision() {
  static const RecipeCase recipe{.name = "high_precision", .recipe = HighPrecision{}};
  return recipe;
}

std::span<const RecipeCase> quantized_recipes() {
  static const std::vector<RecipeCase> recipes = make_recipes();
  return recipes;
}

std::span<const RecipeCase> forward_recipes() {
  const std::span<const RecipeCase> all = quantized_recipes();
  const auto end = std::find_if(all.begin(), all.end(), [](const RecipeCase& recipe) {
    return recipe.backward_override != BackwardOverride::none;
  });
  return all.first(static_cast<std::size_t>(end - all.begin()));
}

}  // namespace tape8::tools::gradcheck
