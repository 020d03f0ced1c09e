#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <tape8/tape8.hpp>

namespace tape8::tools {

inline constexpr std::string_view kFp32 = "fp32";
inline constexpr std::string_view kBf16 = "bf16";
inline constexpr std::string_view kDelayed = "delayed";
inline constexpr std::string_view kCurrent = "current";
inline constexpr std::string_view kMxfp8 = "mxfp8";
inline constexpr std::string_view kBlock = "block";
inline constexpr std::string_view kNvfp4 = "nvfp4";
inline constexpr std::array kRecipeNames{kFp32, kBf16, kDelayed, kCurrent, kMxfp8, kBlock, kNvfp4};

/// The options of the recipes. The names have been checked.
struct RecipeOptions {
  int margin = 0;
  std::int64_t amax_history_len = DelayedScaling{}.amax_history_len;
  std::string amax_compute_algo = "max";
  std::optional<std::string> fp8_format;  // none: the recipe's own
  std::string backward_override = "none";
  bool power_of_2_scale = false;
  bool no_kernel_2d_blocks = false;
  bool no_hadamard_transform = false;
  bool no_stochastic_rounding = false;
};

/// Adds the options to a sub-command; they are filled in as it parses.
void add_recipe_options(CLI::App& app, RecipeOptions& options);

/// Throws UsageError for an option of a recipe that is not among `recipes`.
void check_recipe_options(const CLI::App& app, const std::vector<std::string>& recipes);

/// The recipe of a name; `seed` is that of stochastic rounding.
Recipe recipe_from(const RecipeOptions& options, std::string_view name, std::uint64_t seed);

}  // namespace tape8::tools
