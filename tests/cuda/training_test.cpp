// A program that runs on a GPU as it does on the CPU, but for the device it names.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/tape8.hpp>

#include "cuda/matmul_log.hpp"

namespace tape8::test {
namespace {

struct Run {
  std::vector<double> losses;
  std::vector<float> amax_history;
  std::int64_t synchronizations = 0;  // of the steps, but for reading the loss
};

Run train(const Recipe& recipe, const Device& device) {
  constexpr std::int64_t kRows = 32, kHidden = 16, kClasses = 5;
  constexpr int kSteps = 6;
  Rng rng{3};
  const LayerNormMLP mlp{{.hidden = kHidden,
                          .intermediate = 24,
                          .activation_type = swiglu,
                          .recipe = recipe,
                          .device = device},
                         rng};
  const Dense head{
      {.in_features = kHidden, .out_features = kClasses, .recipe = recipe, .device = device}, rng};
  AdamW optimizer{parameters(mlp, head), {.learning_rate = 1e-2F}};
  const Tensor x = rng.normal({kRows, kHidden}, 0.0F, 1.0F).to(device);
  std::vector<std::int32_t> classes(kRows);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::int32_t>(i % 5);
  const Tensor labels = Tensor::from(classes, {kRows});
  Run run;
  for (int step = 0; step < kSteps; ++step) {
    const std::int64_t before = cuda_emulation::counters().synchronizations;
    Tape tape;
    const Variable loss = softmax_cross_entropy(head(mlp(Variable{x})), labels);
    tape.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    run.synchronizations += cuda_emulation::counters().synchronizations - before;
    run.losses.push_back(loss.tensor().item<float>());
  }
  if (std::holds_alternative<DelayedScaling>(recipe)) {
    run.amax_history = head.quantizer_set().x.amax_history();
  }
  return run;
}

/// Whether every matmul of a recipe's steps is done in FP8 or FP4.
bool multiplies_natively(const Recipe& recipe, int capability) {
  if (std::holds_alternative<HighPrecision>(recipe)) return false;
  if (std::holds_alternative<Float8BlockScaling>(recipe)) return capability == 90;
  const bool in_blocks = std::holds_alternative<MXFP8BlockScaling>(recipe) ||
                         std::holds_alternative<NVFP4BlockScaling>(recipe);
  return capability >= (in_blocks ? 100 : 89);
}

bool is_low_precision(cudaDataType_t type) {
  return cuda_emulation::is_fp8(type) || type == CUDA_R_4F_E2M1;
}

TEST_CASE("cuda: training goes as on the CPU, and no step waits for the GPU") {
  const Recipe recipes[] = {HighPrecision{},      DelayedScaling{.amax_history_len = 4},
                            CurrentScaling{},     MXFP8BlockScaling{},
                            Float8BlockScaling{}, NVFP4BlockScaling{}};
  for (const Recipe& recipe : recipes) {
    CAPTURE(to_string(recipe));
    const Run cpu = train(recipe, Device{});
    for (int gpu = 0; gpu < 5; ++gpu) {
      CAPTURE(gpu);
      const Device device{DeviceType::cuda, gpu};
      const MatmulLog log;
      const Run cuda = train(recipe, device);
      const bool native = multiplies_natively(recipe, capability_of(device));
      CHECK(log.matmuls().size() == 6 * 9);
      CHECK(std::ranges::all_of(log.matmuls(), [&](const cuda_emulation::Matmul& matmul) {
        return is_low_precision(matmul.a.type) == native &&
               is_low_precision(matmul.b.type) == native;
      }));
      CHECK(cuda.synchronizations == 0);
      REQUIRE(cuda.losses.size() == cpu.losses.size());
      for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
        // A code that rounds the other way in one step moves the next ones a little.
        CHECK(std::abs(cuda.losses[i] - cpu.losses[i]) < 2e-3 * cpu.losses[0]);
      }
      CHECK(cuda.losses.back() < 0.8 * cuda.losses.front());
      REQUIRE(cuda.amax_history.size() == cpu.amax_history.size());
      for (std::size_t i = 0; i < cpu.amax_history.size(); ++i) {
        CHECK(cuda.amax_history[i] == doctest::Approx(cpu.amax_history[i]).epsilon(1e-2));
      }
    }
  }
}

TEST_CASE("cuda: operands on two devices are refused") {
  const Device gpu{DeviceType::cuda, 0};
  const Variable x{Tensor::zeros({2, 4})};
  const Variable kernel = parameter(Tensor::zeros({4, 3}, DType::f32, gpu));
  CHECK_THROWS_WITH_AS(dense(x, kernel), doctest::Contains("kernel"), OptionError);
  CHECK_THROWS_AS(add(x, Variable{Tensor::zeros({2, 4}, DType::f32, gpu)}), OptionError);
  CHECK_THROWS_AS(add(Variable{Tensor::zeros({2, 4}, DType::f32, gpu)},
                      Variable{Tensor::zeros({2, 4}, DType::f32, Device{DeviceType::cuda, 1})}),
                  OptionError);
}

TEST_CASE("cuda: memory of a GPU is not the CPU's to read") {
  const Device gpu{DeviceType::cuda, 0};
  CHECK_THROWS_AS(Tensor::zeros({2}, DType::f32, gpu).span<float>(), UnsupportedError);
  CHECK_THROWS_AS(to_dlpack(Tensor::zeros({2}, DType::f32, gpu)), UnsupportedError);
}

}  // namespace
}  // namespace tape8::test
