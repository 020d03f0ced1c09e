// Trains on memory of its own; status 1 when the loss does not fall, or an error is not caught.

#include <cstdio>
#include <vector>

#include <tape8/tape8.hpp>

/// What the library throws is caught by its type.
bool errors_are_caught() {
  try {
    tape8::sum(tape8::Tensor::zeros({2, 3}), 5);
  } catch (const tape8::ShapeError&) {
    return true;
  }
  return false;
}

int main() {
  tape8::Rng rng{1};
  std::vector<float> memory(32 * 16);
  const tape8::Tensor examples = tape8::Tensor::wrap(std::span<float>(memory), {32, 16});
  const std::vector<float> values = rng.normal({32, 16}, 0.0F, 1.0F).to_vector<float>();
  std::vector<std::int32_t> classes(32);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = values[i];
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = memory[i * 16] > 0.0F ? 1 : 0;
  const tape8::Tensor labels = tape8::Tensor::wrap(std::span<std::int32_t>(classes), {32});

  const tape8::LayerNormMLP mlp{
      {.hidden = 16, .intermediate = 32, .recipe = tape8::DelayedScaling{}}, rng};
  const tape8::Dense head{{.in_features = 16, .out_features = 2}, rng};
  tape8::AdamW optimizer{tape8::parameters(mlp, head), {.learning_rate = 1e-2F}};

  float first = 0.0F;
  float last = 0.0F;
  for (int step = 0; step < 50; ++step) {
    tape8::Tape tape;
    const tape8::Variable loss = tape8::softmax_cross_entropy(head(mlp(examples)), labels);
    tape.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    last = loss.tensor().item<float>();
    if (step == 0) first = last;
  }
  std::printf("loss %.4f -> %.4f\n", first, last);
  return last < 0.5F * first && errors_are_caught() ? 0 : 1;
}
