// What each recipe costs and loses on one matmul: bytes, and errors of result and gradients.
// x [256, 1024] is normal, and every 128th feature 64 times as large, as activations of
// transformers are; the kernel [1024, 512] and the cotangent are normal.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include <tape8/tape8.hpp>

namespace t8 = tape8;

namespace {

constexpr std::int64_t kRows = 256, kIn = 1024, kOut = 512;

struct Result {
  t8::Tensor y, dx, dkernel;
  std::int64_t kept = 0;
};

/// Forward and backward; two passes, as delayed scaling takes its scales from the first.
Result run(const t8::Recipe& recipe, const t8::Tensor& x_values, const t8::Tensor& kernel_values,
           const t8::Tensor& dy) {
  const t8::QuantizerSet set = t8::make_quantizer_set(recipe);
  Result result;
  for (int pass = 0; pass < 2; ++pass) {
    const t8::Variable leaf = t8::parameter(x_values);
    const t8::Variable kernel = t8::parameter(kernel_values);
    t8::Tape tape;
    const t8::Variable x = t8::scale(leaf, 1.0);  // parameters' own memory is not counted
    const t8::Variable y = t8::dense(x, kernel, {}, {.quantizer_set = set});
    result.kept = tape.saved_for_backward_bytes();
    tape.backward(y, dy);
    result.y = y.tensor();
    result.dx = leaf.grad();
    result.dkernel = kernel.grad();
  }
  return result;
}

/// Root mean square of a - b over that of b.
double relative_error(const t8::Tensor& a, const t8::Tensor& b) {
  const auto left = a.to_vector<double>();
  const auto right = b.to_vector<double>();
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    difference += (left[i] - right[i]) * (left[i] - right[i]);
    size += right[i] * right[i];
  }
  return std::sqrt(difference / size);
}

t8::Tensor input(t8::Rng& rng) {
  std::vector<float> values = rng.normal({kRows, kIn}, 0.0F, 1.0F).to_vector<float>();
  for (std::size_t i = 0; i < values.size(); i += 128) values[i] *= 64.0F;
  return t8::Tensor::from(values, {kRows, kIn});
}

}  // namespace

int main() {
  t8::Rng rng{1};
  const t8::Tensor x = input(rng);
  const t8::Tensor kernel = rng.normal({kIn, kOut}, 0.0F, 1.0F / 32.0F);
  const t8::Tensor dy = rng.normal({kRows, kOut}, 0.0F, 1e-3F);
  const Result exact = run(t8::HighPrecision{}, x, kernel, dy);

  const std::vector<std::pair<const char*, t8::Recipe>> recipes{
      {"delayed", t8::DelayedScaling{}},
      {"current", t8::CurrentScaling{}},
      {"mxfp8", t8::MXFP8BlockScaling{}},
      {"block", t8::Float8BlockScaling{}},
      {"nvfp4", t8::NVFP4BlockScaling{}},
      {"nvfp4, no Hadamard", t8::NVFP4BlockScaling{.hadamard_transform = false}},
      {"nvfp4, nearest", t8::NVFP4BlockScaling{.stochastic_rounding = false}},
      {"nvfp4, 1-D kernel", t8::NVFP4BlockScaling{.kernel_2d_blocks = false}}};

  std::printf("%-20s %10s %8s %8s %8s %8s\n", "recipe", "bytes kept", "cast x", "y", "dx",
              "dkernel");
  std::printf("%-20s %10lld\n", "fp32", static_cast<long long>(exact.kept));
  bool ordered = true;
  for (const auto& [name, recipe] : recipes) {
    const Result result = run(recipe, x, kernel, dy);
    // A quantizer that has seen x once, as above.
    const t8::Quantizer quantizer = t8::make_quantizer(recipe, t8::TensorRole::x);
    if (std::holds_alternative<t8::DelayedScaling>(recipe)) {
      const t8::Variable weight = t8::parameter(t8::Tensor::zeros({kIn, 1}));
      t8::Tape tape;
      const t8::Variable y = t8::dense(x, weight, {}, {.quantizer_set = {.x = quantizer}});
      tape.backward(y, t8::Tensor::zeros({kRows, 1}));
    }
    const double error = relative_error(result.y, exact.y);
    std::printf("%-20s %10lld %8.4f %8.4f %8.4f %8.4f\n", name, static_cast<long long>(result.kept),
                relative_error(quantizer.quantize(x).dequantize(), x), error,
                relative_error(result.dx, exact.dx), relative_error(result.dkernel, exact.dkernel));
    ordered = ordered && error > 1e-3 && error < 0.5 && result.kept < exact.kept;
  }
  return ordered ? 0 : 1;
}
