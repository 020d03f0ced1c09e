#include "recipe_options.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "command.hpp"
#include "validators.hpp"

namespace tape8::tools {
namespace {

constexpr std::array<std::string_view, 2> kAmaxComputeAlgos{"max", "most_recent"};
constexpr std::array<std::string_view, 2> kFp8Formats{"hybrid", "e4m3"};
constexpr std::array<std::string_view, 3> kBackwardOverrides{"none", "high_precision",
                                                             "dequantized"};
/// Each step reads all of a history.
constexpr std::int64_t kMaxAmaxHistory = 1 << 16;

/// Options that some recipes take and the others would ignore.
struct RecipeOption {
  const char* name;
  std::vector<std::string_view> recipes;
};
const std::array<RecipeOption, 9> kRecipeOptions{
    {{"--margin", {kDelayed}},
     {"--amax-history-len", {kDelayed}},
     {"--amax-compute-algo", {kDelayed}},
     {"--power-of-2-scale", {kCurrent}},
     {"--fp8-format", {kDelayed, kCurrent, kMxfp8, kBlock}},
     {"--backward-override", {kDelayed, kCurrent, kMxfp8, kBlock, kNvfp4}},
     {"--no-kernel-2d-blocks", {kNvfp4}},
     {"--no-hadamard-transform", {kNvfp4}},
     {"--no-stochastic-rounding", {kNvfp4}}}};

Fp8Format fp8_format(const RecipeOptions& options, Fp8Format otherwise) {
  if (!options.fp8_format) return otherwise;
  return *options.fp8_format == "hybrid" ? Fp8Format::hybrid : Fp8Format::e4m3;
}

BackwardOverride backward_override(const RecipeOptions& options) {
  if (options.backward_override == "high_precision") return BackwardOverride::high_precision;
  if (options.backward_override == "dequantized") return BackwardOverride::dequantized;
  return BackwardOverride::none;
}

DelayedScaling delayed_scaling(const RecipeOptions& options) {
  return {.margin = options.margin,
          .format = fp8_format(options, DelayedScaling{}.format),
          .amax_history_len = options.amax_history_len,
          .amax_compute_algo = options.amax_compute_algo == "max" ? AmaxComputeAlgo::max
                                                                  : AmaxComputeAlgo::most_recent,
          .backward_override = backward_override(options)};
}

CurrentScaling current_scaling(const RecipeOptions& options) {
  return {.format = fp8_format(options, CurrentScaling{}.format),
          .power_of_2_scale = options.power_of_2_scale,
          .backward_override = backward_override(options)};
}

}  // namespace

void add_recipe_options(CLI::App& app, RecipeOptions& options) {
  constexpr const char* kGroup = "FP8 and FP4 recipes";
  app.add_option(
         "--margin", options.margin,
         fmt::format("delayed: scales are divided by 2^margin (default {})", options.margin))
      ->type_name("N")
      ->check(whole_number(-64, 64))
      ->group(kGroup);
  app.add_option(
         "--amax-history-len", options.amax_history_len,
         fmt::format("delayed: steps whose amax is kept (default {})", options.amax_history_len))
      ->type_name("N")
      ->check(whole_number(1, kMaxAmaxHistory))
      ->group(kGroup);
  app.add_option("--amax-compute-algo", options.amax_compute_algo,
                 fmt::format("delayed: what a scale is made from, {}\nof that history (default {})",
                             fmt::join(kAmaxComputeAlgos, ", "), options.amax_compute_algo))
      ->type_name("NAME")
      ->check(one_of(kAmaxComputeAlgos))
      ->group(kGroup);
  app.add_option("--fp8-format", options.fp8_format,
                 "hybrid (e4m3 forward, e5m2 for gradients), e4m3 (for all)\n"
                 "(default hybrid; mxfp8 and block: e4m3)")
      ->type_name("NAME")
      ->check(one_of(kFp8Formats))
      ->group(kGroup);
  app.add_option("--backward-override", options.backward_override,
                 fmt::format("What backward multiplies: none (the forward casts, and a cast\n"
                             "of the gradient), high_precision (what was cast), dequantized\n"
                             "(the casts' values); with the last two the gradient is not\n"
                             "cast (default {})",
                             options.backward_override))
      ->type_name("NAME")
      ->check(one_of(kBackwardOverrides))
      ->group(kGroup);
  app.add_flag("--power-of-2-scale", options.power_of_2_scale,
               "current: scales are rounded down to powers of 2")
      ->group(kGroup);
  app.add_flag("--no-kernel-2d-blocks", options.no_kernel_2d_blocks,
               "nvfp4: kernels too have a scale for 16 values of a row,\n"
               "not for 16 x 16")
      ->group(kGroup);
  app.add_flag("--no-hadamard-transform", options.no_hadamard_transform,
               "nvfp4: what makes a kernel's gradient is cast as it is")
      ->group(kGroup);
  app.add_flag("--no-stochastic-rounding", options.no_stochastic_rounding,
               "nvfp4: gradients are rounded to nearest")
      ->group(kGroup);
}

void check_recipe_options(const CLI::App& app, const std::vector<std::string>& recipes) {
  for (const auto& [name, takers] : kRecipeOptions) {
    const bool used = std::any_of(takers.begin(), takers.end(), [&](std::string_view taker) {
      return std::find(recipes.begin(), recipes.end(), taker) != recipes.end();
    });
    if (app.count(name) > 0 && !used) {
      throw UsageError(fmt::format("train: {} is for the recipes {}: got {}", name,
                                   fmt::join(takers, ", "), fmt::join(recipes, ",")));
    }
  }
}

Recipe recipe_from(const RecipeOptions& options, std::string_view name, std::uint64_t seed) {
  if (name == kDelayed) return delayed_scaling(options);
  if (name == kCurrent) return current_scaling(options);
  if (name == kMxfp8) {
    return MXFP8BlockScaling{.format = fp8_format(options, MXFP8BlockScaling{}.format),
                             .backward_override = backward_override(options)};
  }
  if (name == kBlock) {
    return Float8BlockScaling{.format = fp8_format(options, Float8BlockScaling{}.format),
                              .backward_override = backward_override(options)};
  }
  if (name == kNvfp4) {
    return NVFP4BlockScaling{.kernel_2d_blocks = !options.no_kernel_2d_blocks,
                             .hadamard_transform = !options.no_hadamard_transform,
                             .stochastic_rounding = !options.no_stochastic_rounding,
                             .seed = seed,
                             .backward_override = backward_override(options)};
  }
  return HighPrecision{};
}

}  // namespace tape8::tools
