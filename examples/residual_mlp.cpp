// A residual MLP out of the primitives alone, each matmul in FP8 with a quantizer set of its own.

#include <algorithm>
#include <cstdio>
#include <vector>

#include <tape8/tape8.hpp>
namespace t8 = tape8;

constexpr std::int64_t kHidden = 64;  // as many as pixels
constexpr std::int64_t kIntermediate = 128;
constexpr std::int64_t kClasses = 10;

t8::Variable kernel(std::int64_t in, std::int64_t out, t8::Rng& rng) {
  return t8::parameter(t8::lecun_normal()({in, out}, rng));
}

t8::Variable filled(std::int64_t size, double value) {
  return t8::parameter(t8::Tensor::full({size}, value));
}

/// h + dense(swiglu(dense(layernorm(h)))).
struct Block {
  explicit Block(t8::Rng& rng)
      : kernel_1(kernel(kHidden, 2 * kIntermediate, rng)),
        kernel_2(kernel(kIntermediate, kHidden, rng)) {}

  t8::Variable operator()(const t8::Variable& h) const {
    const t8::Variable gate_and_value =
        t8::layernorm_dense(h, kernel_1, gamma, beta, bias_1, {.quantizer_set = set_1});
    const t8::Variable inner = t8::activation(gate_and_value, t8::swiglu);
    return h + t8::dense(inner, kernel_2, bias_2, {.quantizer_set = set_2});
  }

  std::vector<t8::Variable> parameters() const {
    return {gamma, beta, kernel_1, bias_1, kernel_2, bias_2};
  }

  t8::Variable gamma = filled(kHidden, 1.0), beta = filled(kHidden, 0.0);
  t8::Variable kernel_1, bias_1 = filled(2 * kIntermediate, 0.0);
  t8::Variable kernel_2, bias_2 = filled(kHidden, 0.0);
  t8::QuantizerSet set_1 = t8::make_quantizer_set(t8::DelayedScaling{});
  t8::QuantizerSet set_2 = t8::make_quantizer_set(t8::DelayedScaling{});
};

struct ResidualMLP {
  explicit ResidualMLP(t8::Rng& rng)
      : block_1(rng), block_2(rng), head(kernel(kHidden, kClasses, rng)) {}

  t8::Variable operator()(const t8::Variable& images) const {
    return t8::dense(block_2(block_1(images)), head, bias, {.quantizer_set = set});
  }

  std::vector<t8::Variable> parameters() const {
    std::vector<t8::Variable> all = t8::parameters(block_1, block_2);
    all.insert(all.end(), {head, bias});
    return all;
  }

  Block block_1, block_2;
  t8::Variable head, bias = filled(kClasses, 0.0);
  t8::QuantizerSet set = t8::make_quantizer_set(t8::DelayedScaling{});
};

/// No tape is alive here: nothing is recorded, and no scale moves.
double accuracy(const ResidualMLP& model, const t8::Dataset& data, t8::Rng& rng) {
  std::int64_t correct = 0;
  for (const auto& [images, labels] : t8::batches(data, {.shuffle = false}, rng)) {
    const t8::Tensor logits = model(images).tensor();
    for (std::int64_t row = 0; row < labels.numel(); ++row) {
      const auto scores = logits.span<float>().subspan(row * kClasses, kClasses);
      const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
      correct += best == labels.span<std::int32_t>()[row] ? 1 : 0;
    }
  }
  return static_cast<double>(correct) / static_cast<double>(data.size());
}

int main() {
  const t8::Dataset train = t8::load_idx("examples/data/digits", t8::Split::train);
  const t8::Dataset test = t8::load_idx("examples/data/digits", t8::Split::test);
  t8::Rng rng{1};
  const ResidualMLP model(rng);
  t8::AdamW optimizer{t8::weight_decay_groups(model.parameters()), {.learning_rate = 2e-3F}};

  for (const auto& [images, labels] : t8::batches(train, {.batch_size = 64, .epochs = 5}, rng)) {
    t8::Tape tape;
    tape.backward(t8::softmax_cross_entropy(model(images), labels));
    t8::clip_grad_norm(model.parameters(), 1.0F);
    optimizer.step();
    optimizer.zero_grad();
  }
  const double share = accuracy(model, test, rng);
  std::printf("residual_mlp: test accuracy after 5 epochs: %.3f\n", share);
  return share > 0.85 ? 0 : 1;
}
