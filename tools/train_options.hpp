#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <tape8/tape8.hpp>

#include "model.hpp"
#include "recipe_options.hpp"

namespace tape8::tools {

/// One recipe with one seed.
struct Run {
  std::string recipe;
  std::uint64_t seed = 1;
};

/// The options of `tape8 train`. The names have been checked.
struct TrainOptions {
  std::string data = "examples/data/digits";

  std::vector<std::string> recipes{std::string(kFp32)};
  std::vector<std::uint64_t> seeds{1};

  std::optional<std::int64_t> hidden;
  std::optional<std::int64_t> intermediate;
  std::int64_t layers = 1;
  std::string activation = "gelu";
  std::string norm = "layernorm";
  float dropout = 0.0F;

  std::int64_t epochs = 20;
  std::int64_t batch_size = 64;
  std::string optimizer = "adamw";
  float learning_rate = 1e-3F;
  std::string schedule = "constant";
  std::int64_t warmup_steps = 0;
  std::optional<float> weight_decay;
  std::string decay = "all";
  std::optional<float> clip_grad_norm;
  float label_smoothing = 0.0F;

  bool remake_casts = false;
  RecipeOptions recipe_options;

  std::string device = "cpu";
  int threads = num_threads();
  std::string log;
  bool check_finite = false;
};

/// Adds the options to a sub-command; they are filled in as it parses.
void add_options(CLI::App& app, TrainOptions& options);

/// Throws UsageError for options that do not go together.
void check_together(const CLI::App& app, const TrainOptions& options);

/// The model of a run over a dataset's examples.
ModelConfig model_config(const TrainOptions& options, const Dataset& train, const Run& run);

}  // namespace tape8::tools
