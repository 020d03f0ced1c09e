// tape8 on memory of one's own: parameters and gradients stay in the program's arrays, and other
// libraries see the same bytes through DLPack.

#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

#include <tape8/tape8.hpp>
namespace t8 = tape8;

int main() {
  // The program's own arrays, which outlive every tensor on them.
  const std::vector<float> truth{2.0F, -1.0F, 0.5F};
  std::vector<float> weights(3), gradients(3), inputs(64 * 3), targets(64);

  const t8::Tensor x = t8::Tensor::wrap(std::span(inputs), {64, 3});
  const t8::Tensor y = t8::Tensor::wrap(std::span(targets), {64, 1});
  t8::Tensor w = t8::Tensor::wrap(std::span(weights), {3, 1});
  t8::Variable kernel = t8::parameter(w);
  kernel.set_grad_memory(t8::Tensor::wrap(std::span(gradients), {3, 1}));

  t8::Rng rng{1};
  const std::vector<float> noise = rng.normal({64 * 3}, 0.0F, 1.0F).to_vector<float>();
  for (std::size_t i = 0; i < noise.size(); ++i) {
    inputs[i] = noise[i];
    targets[i / 3] += noise[i] * truth[i % 3];
  }

  for (int step = 0; step < 100; ++step) {
    t8::Tape tape;
    tape.backward(t8::mse_loss(t8::dense(x, kernel), y));  // writes `gradients`
    // mutable_span() tells tape8 of the change, which casts of the weight depend on.
    const std::span<float> values = w.mutable_span<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.1F * gradients[i];
    kernel.zero_grad();
  }

  // to_dlpack() hands out a view that a consumer such as NumPy releases; here tape8 takes it back.
  const t8::Tensor view = t8::from_dlpack(t8::to_dlpack(w));
  bool fits = view.data() == weights.data();
  for (std::size_t i = 0; i < truth.size(); ++i) {
    std::printf("own_memory: weight %zu: %.4f, true %.4f\n", i, weights[i], truth[i]);
    fits = fits && std::abs(weights[i] - truth[i]) < 1e-3F;
  }
  return fits ? 0 : 1;
}
