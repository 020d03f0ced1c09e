#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include <fmt/ranges.h>

#include "command.hpp"
#include "report.hpp"
#include "training.hpp"

namespace tape8::tools {
namespace {

/// The largest difference of the first logits from fp32's, relative to fp32's largest.
double logits_difference(const TrainOptions& options, const DataSplits& data, const Run& run) {
  if (run.recipe == kFp32) return 0;
  const std::vector<float> logits = first_logits(options, data, run);
  const std::vector<float> expected =
      first_logits(options, data, {.recipe = std::string(kFp32), .seed = run.seed});
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    // Written so that a NaN stays.
    const double here = std::abs(static_cast<double>(logits[i]) - expected[i]);
    difference = here <= difference ? difference : here;
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return difference / largest;
}

void print_setup(const TrainOptions& options, const DataSplits& data) {
  const ModelConfig model = model_config(options, data.train, Run{});
  fmt::print("data   {}: {} training and {} test examples, {} features, {} classes\n", options.data,
             data.train.size(), data.test.size(), model.features, model.classes);
  fmt::print("model  {}{} x LayerNormMLP({}, {}, {}, {}), Dense({}, {})\n",
             model.features == model.hidden
                 ? ""
                 : fmt::format("Dense({}, {}), ", model.features, model.hidden),
             model.layers, model.hidden, model.intermediate, options.activation, options.norm,
             model.hidden, model.classes);
  fmt::print("run    {} epochs, batch size {}, {}, learning rate {}; cpu {}, {} threads\n\n",
             options.epochs, options.batch_size, options.optimizer, options.learning_rate,
             cpu_isa(), options.threads);
}

ReportRow run_one(const TrainOptions& options, const DataSplits& data, const Run& run,
                  RunLog& log) {
  ReportRow row{.logits_difference = logits_difference(options, data, run)};
  Progress progress(run, options.epochs, total_steps(options, data.train));
  row.result = train_once(options, data, run,
                          {.on_step = [&](std::int64_t done) { progress.step(done); },
                           .on_epoch =
                               [&](const EpochResult& result) {
                                 progress.epoch(result);
                                 log.epoch(run, result);
                               }});
  log.summary(row.result);
  return row;
}

bool is_finite(const RunResult& result) {
  return std::isfinite(result.last.train_loss) && std::isfinite(result.last.test_loss);
}

void check_warmup(const TrainOptions& options, std::int64_t steps) {
  if (options.warmup_steps < steps) return;
  throw UsageError(fmt::format("train: --warmup-steps must be below the run's {} steps: got {}",
                               steps, options.warmup_steps));
}

Status train(const TrainOptions& options) {
  set_num_threads(options.threads);
  const DataSplits data{.train = load_idx(options.data, Split::train),
                        .test = load_idx(options.data, Split::test)};
  check_warmup(options, total_steps(options, data.train));
  RunLog log(options.log);
  print_setup(options, data);

  std::vector<ReportRow> rows;
  for (const std::string& recipe : options.recipes) {
    for (const std::uint64_t seed : options.seeds) {
      rows.push_back(run_one(options, data, {.recipe = recipe, .seed = seed}, log));
    }
  }
  fmt::print("\n{}", report(rows));

  std::vector<std::string> failed;
  for (const ReportRow& row : rows) {
    if (is_finite(row.result)) continue;
    failed.push_back(fmt::format("{} seed {}", row.result.run.recipe, row.result.run.seed));
  }
  if (failed.empty()) return Status::done;
  fmt::print(stderr, "tape8: train: the loss is not finite: {}\n", fmt::join(failed, ", "));
  return Status::check_failed;
}

}  // namespace

Command train_command(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("train", "Train an MLP on an IDX data set and compare recipes");
  const auto options = std::make_shared<TrainOptions>();
  add_options(*app, *options);
  app->footer(
      "Ends with a table: losses and accuracy after the last epoch, median time of a step,\n"
      "bytes the tape keeps for backward, and how far the recipe's logits are from fp32's.");
  return {app, [app, options] {
            check_together(*app, *options);
            return train(*options);
          }};
}

}  // namespace tape8::tools
