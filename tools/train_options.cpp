#include "train_options.hpp"

#include <algorithm>
#include <set>
#include <span>

#include <fmt/ranges.h>

#include "command.hpp"
#include "validators.hpp"

namespace tape8::tools {
namespace {

constexpr std::array<std::string_view, 2> kNorms{"layernorm", "rmsnorm"};
constexpr std::array<std::string_view, 2> kOptimizers{"adamw", "sgd"};
constexpr std::array<std::string_view, 2> kSchedules{"constant", "cosine"};
constexpr std::array<std::string_view, 2> kDecays{"all", "matrices"};

constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxWidth = 1 << 24;

/// Names with commas between them, in lines of at most `width`, each with its end.
std::string lines_of(std::span<const std::string_view> names, std::size_t width) {
  std::string text;
  std::size_t used = 0;
  for (const std::string_view name : names) {
    if (used + name.size() + 1 > width) {
      text += '\n';
      used = 0;
    } else if (used > 0) {
      text += ' ';
    }
    text.append(name).append(",");
    used += name.size() + 2;
  }
  text.back() = '\n';
  return text;
}

void add_run_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--data", options.data,
                 fmt::format("Directory with an IDX data set (MNIST's file names, plain\n"
                             "or .gz); pixels are divided by the largest training pixel\n"
                             "(default {})",
                             options.data))
      ->type_name("DIR");
  CLI::Option* recipe =
      app.add_option("--recipe", options.recipes,
                     "How the matmuls run: fp32; bf16 (parameters and batches too,\n"
                     "the optimizer keeps f32 master weights); FP8 with parameters\n"
                     "in f32: delayed (scales from earlier steps), current (scales\n"
                     "from the tensors themselves), mxfp8 and block (a scale for 32\n"
                     "or 128 values); nvfp4, FP4 likewise (a scale for 16 values)\n"
                     "(default fp32)")
          ->expected(1)
          ->type_name("NAME")
          ->check(one_of(kRecipeNames));
  app.add_option("--compare", options.recipes,
                 "Several recipes, one run after the other, such as\n"
                 "fp32,bf16,delayed,current,mxfp8,block,nvfp4")
      ->delimiter(',')
      ->type_name("NAME,...")
      ->check(one_of(kRecipeNames))
      ->excludes(recipe);
  CLI::Option* seed = app.add_option("--seed", options.seeds,
                                     "Of the first parameters and the order of examples\n"
                                     "(default 1)")
                          ->expected(1)
                          ->type_name("N")
                          ->check(seed_number());
  app.add_option("--seeds", options.seeds,
                 "Several seeds, a run each, and their mean, such as 1,2,3")
      ->delimiter(',')
      ->type_name("N,...")
      ->check(seed_number())
      ->excludes(seed);
  app.add_option("--device", options.device,
                 fmt::format("Where the model and its examples lie: cpu, cuda, cuda:1, ...\n"
                             "(default {})",
                             options.device))
      ->type_name("NAME")
      ->check(device_name());
  app.add_option("--threads", options.threads,
                 fmt::format("Threads an op may use; no result depends on it\n"
                             "(default OMP_NUM_THREADS or all cores, here {})",
                             options.threads))
      ->type_name("N")
      ->check(whole_number(1, 4096));
  app.add_option("--log", options.log, "Write a line of JSON for each epoch and one for each run")
      ->type_name("FILE");
  app.add_flag("--check-finite", options.check_finite,
               "Stop with status 1 at the first op that makes a NaN or Inf,\n"
               "and name it");
}

void add_model_options(CLI::App& app, TrainOptions& options) {
  constexpr const char* kGroup = "Model";
  app.add_option("--hidden", options.hidden,
                 "Width between the layers; where it is not the number of\n"
                 "features, a Dense comes first (default the features)")
      ->type_name("N")
      ->check(whole_number(1, kMaxWidth))
      ->group(kGroup);
  app.add_option("--intermediate", options.intermediate,
                 "Width inside a LayerNormMLP, after the activation\n"
                 "(default 4 x hidden)")
      ->type_name("N")
      ->check(whole_number(1, kMaxWidth))
      ->group(kGroup);
  app.add_option(
         "--layers", options.layers,
         fmt::format("LayerNormMLPs, each with a residual if several (default {})", options.layers))
      ->type_name("N")
      ->check(whole_number(1, kMaxLayers))
      ->group(kGroup);
  const auto names = activation_names();
  app.add_option("--activation", options.activation,
                 fmt::format("{}(default {})", lines_of(names, 60), options.activation))
      ->type_name("NAME")
      ->check(one_of(names))
      ->group(kGroup);
  app.add_option("--norm", options.norm,
                 fmt::format("{} (default {})", fmt::join(kNorms, ", "), options.norm))
      ->type_name("NAME")
      ->check(one_of(kNorms))
      ->group(kGroup);
  app.add_option("--dropout", options.dropout,
                 fmt::format("Share of each LayerNormMLP's output that a training step sets\n"
                             "to 0 (default {})",
                             options.dropout))
      ->type_name("X")
      ->check(share())
      ->group(kGroup);
  app.add_flag("--remake-casts", options.remake_casts,
               "Backward casts a LayerNormMLP's activations again instead of\n"
               "keeping the casts: less memory, the same results")
      ->group(kGroup);
}

void add_optimizer_options(CLI::App& app, TrainOptions& options) {
  constexpr const char* kGroup = "Training";
  app.add_option("--epochs", options.epochs,
                 fmt::format("Passes over the training set (default {})", options.epochs))
      ->type_name("N")
      ->check(whole_number(1, 1'000'000'000))
      ->group(kGroup);
  app.add_option("--batch-size", options.batch_size,
                 fmt::format("Examples a step (default {})", options.batch_size))
      ->type_name("N")
      ->check(whole_number(1))
      ->group(kGroup);
  app.add_option("--optimizer", options.optimizer,
                 fmt::format("{} (default {})", fmt::join(kOptimizers, ", "), options.optimizer))
      ->type_name("NAME")
      ->check(one_of(kOptimizers))
      ->group(kGroup);
  app.add_option("--lr", options.learning_rate,
                 fmt::format("Learning rate (default {})", options.learning_rate))
      ->type_name("X")
      ->check(rate())
      ->group(kGroup);
  app.add_option("--schedule", options.schedule,
                 fmt::format("constant, cosine (the rate falls to 0 along half a cosine\n"
                             "over all steps) (default {})",
                             options.schedule))
      ->type_name("NAME")
      ->check(one_of(kSchedules))
      ->group(kGroup);
  app.add_option("--warmup-steps", options.warmup_steps,
                 fmt::format("First steps, in which the rate rises in equal parts to --lr\n"
                             "(default {})",
                             options.warmup_steps))
      ->type_name("N")
      ->check(whole_number(0))
      ->group(kGroup);
  app.add_option("--weight-decay", options.weight_decay,
                 fmt::format("Pull of each step towards zero\n(default {} with adamw, {} with sgd)",
                             AdamWOptions{}.weight_decay, SGDOptions{}.weight_decay))
      ->type_name("X")
      ->check(rate())
      ->group(kGroup);
  app.add_option("--decay", options.decay,
                 fmt::format("What decays: all, matrices (not biases, gamma and beta)\n"
                             "(default {})",
                             options.decay))
      ->type_name("NAME")
      ->check(one_of(kDecays))
      ->group(kGroup);
  app.add_option("--clip-grad-norm", options.clip_grad_norm,
                 "Largest joint 2-norm of all gradients; longer ones are scaled\n"
                 "down to it (default no limit)")
      ->type_name("X")
      ->check(positive())
      ->group(kGroup);
  app.add_option("--label-smoothing", options.label_smoothing,
                 fmt::format("Share of a training target that is spread over all classes;\n"
                             "test losses are without (default {})",
                             options.label_smoothing))
      ->type_name("X")
      ->check(share())
      ->group(kGroup);
}

template <class T>
void check_distinct(const char* what, const std::vector<T>& values) {
  if (std::set<T>(values.begin(), values.end()).size() < values.size()) {
    throw UsageError(
        fmt::format("train: {}: each may be given once: got {}", what, fmt::join(values, ",")));
  }
}

}  // namespace

void add_options(CLI::App& app, TrainOptions& options) {
  add_run_options(app, options);
  add_model_options(app, options);
  add_optimizer_options(app, options);
  add_recipe_options(app, options.recipe_options);
}

void check_together(const CLI::App& app, const TrainOptions& options) {
  check_distinct("--compare", options.recipes);
  check_distinct("--seeds", options.seeds);
  check_recipe_options(app, options.recipes);
}

ModelConfig model_config(const TrainOptions& options, const Dataset& train, const Run& run) {
  ModelConfig config;
  config.features = train.features();
  config.classes = train.classes;
  config.hidden = options.hidden.value_or(config.features);
  config.intermediate = options.intermediate.value_or(4 * config.hidden);
  config.layers = options.layers;
  config.activation_type = activation_type_from(options.activation);
  config.norm_type = options.norm == "layernorm" ? NormType::layernorm : NormType::rmsnorm;
  config.dropout = options.dropout;
  config.remake_casts = options.remake_casts;
  if (run.recipe == kBf16) config.dtype = DType::bf16;
  config.device = device_from(options.device);
  config.recipe = recipe_from(options.recipe_options, run.recipe, run.seed);
  return config;
}

}  // namespace tape8::tools
