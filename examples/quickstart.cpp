#include <tape8/tape8.hpp>
namespace t8 = tape8;

int main() {
  const t8::Dataset train = t8::load_idx("examples/data/digits", t8::Split::train);
  t8::Rng rng{1};
  t8::LayerNormMLP mlp{{.hidden = 64, .intermediate = 256, .activation_type = t8::swiglu,
                        .recipe = t8::DelayedScaling{}}, rng};
  t8::Dense head{{.in_features = 64, .out_features = 10, .recipe = t8::DelayedScaling{}}, rng};
  t8::AdamW optimizer{t8::parameters(mlp, head), {.learning_rate = 1e-3f}};

  for (const auto& [images, labels] : t8::batches(train, {.batch_size = 64, .epochs = 10}, rng)) {
    t8::Tape tape;                                   // records for as long as it lives
    t8::Variable loss = t8::softmax_cross_entropy(head(mlp(images)), labels);
    tape.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
}
