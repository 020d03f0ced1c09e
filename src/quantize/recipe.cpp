#include <array>

#include <tape8/quantize/recipe.hpp>

namespace tape8 {

std::string_view to_string(const Recipe& recipe) {
  constexpr std::array<std::string_view, std::variant_size_v<Recipe>> kNames{"high_precision",
                                                                             "delayed", "current"};
  return kNames[recipe.index()];
}

}  // namespace tape8
