#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tape8/tape8.hpp>

#include "train_options.hpp"

namespace tape8::tools {

struct DataSplits {
  Dataset train, test;
};

/// What an epoch came to. Losses are means over examples; the training loss is that of the steps
/// themselves, each before its update.
struct EpochResult {
  std::int64_t epoch = 0;  ///< from 1
  double train_loss = 0;
  double test_loss = 0;
  double test_accuracy = 0;  ///< 0 to 1
  double step_ms = 0;        ///< median: forward, backward and optimizer
};

struct RunResult {
  Run run;
  EpochResult last;  ///< of the last epoch; step_ms is the median over all epochs
  std::int64_t saved_for_backward_bytes = 0;  ///< after the first batch's forward
};

/// Is told how a run goes.
struct RunObserver {
  std::function<void(std::int64_t step)> on_step;  ///< steps done so far in all epochs
  std::function<void(const EpochResult&)> on_epoch;
};

/// Of all epochs of a run.
std::int64_t total_steps(const TrainOptions& options, const Dataset& train);

RunResult train_once(const TrainOptions& options, const DataSplits& data, const Run& run,
                     const RunObserver& observer);

/// The logits of the first test batch, by the model as the seed makes it.
std::vector<float> first_logits(const TrainOptions& options, const DataSplits& data,
                                const Run& run);

}  // namespace tape8::tools
