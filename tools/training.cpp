#include "training.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <utility>

namespace tape8::tools {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::unique_ptr<Optimizer> make_optimizer(const TrainOptions& options, const Model& model) {
  std::vector<ParameterGroup> groups{{.parameters = model.parameters()}};
  if (options.decay == "matrices") groups = weight_decay_groups(model.parameters());
  if (options.optimizer == "sgd") {
    SGDOptions sgd{.learning_rate = options.learning_rate};
    sgd.weight_decay = options.weight_decay.value_or(sgd.weight_decay);
    return std::make_unique<SGD>(std::move(groups), sgd);
  }
  AdamWOptions adamw{.learning_rate = options.learning_rate};
  adamw.weight_decay = options.weight_decay.value_or(adamw.weight_decay);
  return std::make_unique<AdamW>(std::move(groups), adamw);
}

/// A constant rate is a cosine that ends where it begins.
WarmupCosine make_schedule(const TrainOptions& options, const Dataset& train) {
  return WarmupCosine{{.peak = options.learning_rate,
                       .final = options.schedule == "cosine" ? 0.0F : options.learning_rate,
                       .warmup_steps = options.warmup_steps,
                       .total_steps = total_steps(options, train)}};
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

/// What a run trains, and how.
struct Trainer {
  const TrainOptions& options;
  Model model;
  std::unique_ptr<Optimizer> optimizer;
  WarmupCosine schedule;
  Rng dropout_rng;

  Step step(const Batch& batch);
};

Step Trainer::step(const Batch& batch) {
  using Clock = std::chrono::steady_clock;
  Step step;
  const Clock::time_point begin = Clock::now();
  Tape tape{{.check_finite = options.check_finite}};
  const Variable loss =
      softmax_cross_entropy(model.training(batch.examples, dropout_rng), batch.labels,
                            {.label_smoothing = options.label_smoothing});
  step.saved_bytes = tape.saved_for_backward_bytes();
  tape.backward(loss);
  if (options.clip_grad_norm) clip_grad_norm(model.parameters(), *options.clip_grad_norm);
  optimizer->set_learning_rate(schedule(optimizer->steps()));
  optimizer->step();
  optimizer->zero_grad();
  step.loss = loss.tensor().item<float>();  // waits for what runs on a GPU
  step.ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return step;
}

Trainer make_trainer(const TrainOptions& options, const Dataset& train, const Run& run, Rng& rng) {
  Model model(model_config(options, train, run), rng);
  std::unique_ptr<Optimizer> optimizer = make_optimizer(options, model);
  // Dropout draws from a stream of its own: the order of examples is the same with and without it.
  return {.options = options,
          .model = std::move(model),
          .optimizer = std::move(optimizer),
          .schedule = make_schedule(options, train),
          .dropout_rng = Rng{~run.seed}};
}

}  // namespace

std::int64_t total_steps(const TrainOptions& options, const Dataset& train) {
  return options.epochs * ((train.size() - 1) / options.batch_size + 1);
}

RunResult train_once(const TrainOptions& options, const DataSplits& data, const Run& run,
                     const RunObserver& observer) {
  const ModelConfig config = model_config(options, data.train, run);
  Rng rng{run.seed};
  Trainer trainer = make_trainer(options, data.train, run, rng);
  const BatchOptions train_batches{
      .batch_size = options.batch_size, .dtype = config.dtype, .device = config.device};
  BatchOptions test_batches = train_batches;
  test_batches.shuffle = false;

  RunResult result{.run = run};
  std::vector<double> all_ms;
  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    double loss_sum = 0;
    const auto first_of_epoch = static_cast<std::ptrdiff_t>(all_ms.size());
    for (const Batch& batch : batches(data.train, train_batches, rng)) {
      const Step step = trainer.step(batch);
      if (all_ms.empty()) result.saved_for_backward_bytes = step.saved_bytes;
      all_ms.push_back(step.ms);
      loss_sum += step.loss * static_cast<double>(batch.labels.numel());
      observer.on_step(static_cast<std::int64_t>(all_ms.size()));
    }
    result.last.epoch = epoch;
    result.last.train_loss = loss_sum / static_cast<double>(data.train.size());
    result.last.step_ms = median({all_ms.begin() + first_of_epoch, all_ms.end()});
    evaluate(trainer.model, data.test, test_batches, result.last);
    observer.on_epoch(result.last);
  }
  result.last.step_ms = median(all_ms);
  return result;
}

std::vector<float> first_logits(const TrainOptions& options, const DataSplits& data,
                                const Run& run) {
  const ModelConfig config = model_config(options, data.train, run);
  Rng rng{run.seed};
  const Model model(config, rng);
  Batches test = batches(data.test,
                         {.batch_size = options.batch_size,
                          .shuffle = false,
                          .dtype = config.dtype,
                          .device = config.device},
                         rng);
  return model((*test.begin()).examples).tensor().to_vector<float>();
}

}  // namespace tape8::tools
