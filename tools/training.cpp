#include "training.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>

namespace tape8::tools {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::unique_ptr<Optimizer> make_optimizer(const TrainOptions& options, const Model& model) {
  if (options.optimizer == "sgd") {
    SGDOptions sgd{.learning_rate = options.learning_rate};
    sgd.weight_decay = options.weight_decay.value_or(sgd.weight_decay);
    return std::make_unique<SGD>(model.parameters(), sgd);
  }
  AdamWOptions adamw{.learning_rate = options.learning_rate};
  adamw.weight_decay = options.weight_decay.value_or(adamw.weight_decay);
  return std::make_unique<AdamW>(model.parameters(), adamw);
}

/// Rows of logits whose largest value is the label's.
std::int64_t count_correct(const Tensor& logits, const Tensor& labels) {
  const std::vector<float> values = logits.to_vector<float>();
  const std::span<const std::int32_t> wanted = labels.span<std::int32_t>();
  const std::size_t classes = values.size() / wanted.size();
  std::int64_t correct = 0;
  for (std::size_t row = 0; row < wanted.size(); ++row) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * classes);
    const auto best = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(classes));
    correct += best - begin == wanted[row] ? 1 : 0;
  }
  return correct;
}

/// Fills in the test figures. No tape is alive here: nothing is recorded, no quantizer moves.
void evaluate(const Model& model, const Dataset& test, const BatchOptions& options,
              EpochResult& result) {
  Rng unused{0};
  double loss_sum = 0;
  std::int64_t correct = 0;
  for (const auto& [examples, labels] : batches(test, options, unused)) {
    const Variable logits = model(examples);
    const double loss = softmax_cross_entropy(logits, labels).tensor().item<float>();
    loss_sum += loss * static_cast<double>(labels.numel());
    correct += count_correct(logits.tensor(), labels);
  }
  result.test_loss = loss_sum / static_cast<double>(test.size());
  result.test_accuracy = static_cast<double>(correct) / static_cast<double>(test.size());
}

struct Step {
  double loss = 0;
  double ms = 0;
  std::int64_t saved_bytes = 0;
};

Step train_step(const Model& model, Optimizer& optimizer, const Batch& batch, bool check_finite) {
  using Clock = std::chrono::steady_clock;
  Step step;
  const Clock::time_point begin = Clock::now();
  Tape tape{{.check_finite = check_finite}};
  const Variable loss = softmax_cross_entropy(model(batch.examples), batch.labels);
  step.saved_bytes = tape.saved_for_backward_bytes();
  tape.backward(loss);
  optimizer.step();
  optimizer.zero_grad();
  step.ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  step.loss = loss.tensor().item<float>();
  return step;
}

}  // namespace

RunResult train_once(const TrainOptions& options, const DataSplits& data, const Run& run,
                     const RunObserver& observer) {
  const ModelConfig config = model_config(options, data.train, run.recipe);
  Rng rng{run.seed};
  const Model model(config, rng);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(options, model);
  const BatchOptions train_batches{.batch_size = options.batch_size, .dtype = config.dtype};
  const BatchOptions test_batches{
      .batch_size = options.batch_size, .shuffle = false, .dtype = config.dtype};

  RunResult result{.run = run};
  std::vector<double> all_ms;
  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    double loss_sum = 0;
    const auto first_of_epoch = static_cast<std::ptrdiff_t>(all_ms.size());
    for (const Batch& batch : batches(data.train, train_batches, rng)) {
      const Step step = train_step(model, *optimizer, batch, options.check_finite);
      if (all_ms.empty()) result.saved_for_backward_bytes = step.saved_bytes;
      all_ms.push_back(step.ms);
      loss_sum += step.loss * static_cast<double>(batch.labels.numel());
      observer.on_step(static_cast<std::int64_t>(all_ms.size()));
    }
    result.last.epoch = epoch;
    result.last.train_loss = loss_sum / static_cast<double>(data.train.size());
    result.last.step_ms = median({all_ms.begin() + first_of_epoch, all_ms.end()});
    evaluate(model, data.test, test_batches, result.last);
    observer.on_epoch(result.last);
  }
  result.last.step_ms = median(all_ms);
  return result;
}

std::vector<float> first_logits(const TrainOptions& options, const DataSplits& data,
                                const Run& run) {
  const ModelConfig config = model_config(options, data.train, run.recipe);
  Rng rng{run.seed};
  const Model model(config, rng);
  Batches test = batches(
      data.test, {.batch_size = options.batch_size, .shuffle = false, .dtype = config.dtype}, rng);
  return model((*test.begin()).examples).tensor().to_vector<float>();
}

}  // namespace tape8::tools
