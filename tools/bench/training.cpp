#include "bench/training.hpp"

#include <array>
#include <memory>
#include <string_view>
#include <sys/resource.h>

#include <fmt/format.h>

#include <tape8/tape8.hpp>

#include "model.hpp"
#include "recipe_options.hpp"

namespace tape8::tools::bench {
namespace {

struct TrainingShape {
  std::int64_t batch = 0, features = 0, intermediate = 0;

  /// Of a step's matmuls; the first layer's x needs no gradient.
  double flops() const {
    const double mlp = 2.0 * static_cast<double>(batch * features * intermediate);
    const double head = 2.0 * static_cast<double>(batch * features) * kClasses;
    return 6.0 * mlp + 3.0 * head;
  }

  static constexpr std::int64_t kClasses = 10;
};

constexpr std::array<TrainingShape, 2> kShapes{{{64, 64, 256}, {256, 512, 2048}}};

constexpr int kLastStep = 100;

/// What `tape8 train` does for a batch.
class Training {
 public:
  Training(const TrainingShape& shape, std::string_view recipe)
      : dtype_(recipe == kFp32 ? DType::f32 : DType::bf16),
        model_({.features = shape.features,
                .classes = TrainingShape::kClasses,
                .hidden = shape.features,
                .intermediate = shape.intermediate,
                .recipe = recipe_from({}, recipe, 1),
                .dtype = dtype_},
               rng_),
        optimizer_(model_.parameters(), {}),
        examples_(rng_.normal({shape.batch, shape.features}, 0.0F, 1.0F, dtype_)),
        labels_(Tensor::from(labels(shape.batch), {shape.batch})) {}

  void step() {
    Tape tape;
    const Variable loss = softmax_cross_entropy(model_(Variable{examples_}), labels_);
    tape.backward(loss);
    optimizer_.step();
    optimizer_.zero_grad();
  }

 private:
  static std::vector<std::int32_t> labels(std::int64_t batch) {
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < batch; ++i) {
      labels.push_back(static_cast<std::int32_t>(i % TrainingShape::kClasses));
    }
    return labels;
  }

  Rng rng_{1};
  DType dtype_;
  Model model_;
  AdamW optimizer_;
  Tensor examples_, labels_;
};

std::string suffix(const TrainingShape& shape, std::string_view recipe, int threads) {
  return fmt::format("{}/{}x{}x{}/{}", recipe, shape.batch, shape.features, shape.intermediate,
                     threads_suffix(threads));
}

Figure step_figure(const TrainingShape& shape, std::string_view recipe, int threads) {
  const std::string name = "training_step/" + suffix(shape, recipe, threads);
  return {name, false, [=](double seconds) {
            set_num_threads(threads);
            const auto training = std::make_shared<Training>(shape, recipe);
            const Subject subject{
                .call = [training] { training->step(); }, .work = shape.flops(), .unit = Unit::ms};
            return measure_against(name, subject,
                                   recipe == kFp32 ? f32_peak(threads) : bf16_dot_peak(threads),
                                   seconds);
          }};
}

std::int64_t fresh_pages() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// How far `counter` goes in steps 2 to 100.
Figure count_figure(const char* what, std::int64_t (*counter)(), const TrainingShape& shape,
                    std::string_view recipe, int threads) {
  const std::string name = fmt::format("{}/{}", what, suffix(shape, recipe, threads));
  return {name, false, [=](double) {
            set_num_threads(threads);
            Training training(shape, recipe);
            training.step();
            const std::int64_t before = counter();
            for (int step = 2; step <= kLastStep; ++step) training.step();
            const auto counted = static_cast<double>(counter() - before);
            return Result{.name = name, .value = counted, .unit = "count"};
          }};
}

}  // namespace

std::vector<Figure> training_figures(const std::vector<int>& threads) {
  std::vector<Figure> figures;
  for (const TrainingShape& shape : kShapes) {
    for (const std::string_view recipe : kRecipeNames) {
      for (const int count : threads) figures.push_back(step_figure(shape, recipe, count));
      figures.push_back(count_figure("fresh_pages", fresh_pages, shape, recipe, threads.back()));
      if (&shape != &kShapes.front()) continue;  // the pages tell it all the same
      figures.push_back(count_figure(
          "system_allocations", [] { return cpu_memory().system_calls; }, shape, recipe,
          threads.back()));
    }
  }
  return figures;
}

}  // namespace tape8::tools::bench
