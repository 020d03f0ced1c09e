// Trains on the handwritten digits of the examples: FP8 has to reach what fp32 reaches.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/tape8.hpp>

#include "support/values.hpp"

namespace tape8 {
namespace {

using test::Values;
using test::values_of;

const std::filesystem::path kDigits = TAPE8_DIGITS;
const Recipe kDelayed = DelayedScaling{};

struct Model {
  LayerNormMLP mlp;
  Dense head;

  Model(const Dataset& data, const ActivationType& type, const Recipe& recipe, Rng& rng)
      : mlp({.hidden = data.features(),
             .intermediate = 256,
             .activation_type = type,
             .recipe = recipe},
            rng),
        head({.in_features = data.features(), .out_features = data.classes, .recipe = recipe},
             rng) {}

  Variable operator()(const Variable& x) const { return head(mlp(x)); }
  std::vector<Variable> parameters() const { return tape8::parameters(mlp, head); }
};

/// All of a dataset as one batch.
Batch whole(const Dataset& data) {
  Rng rng(0);
  Batches all = batches(data, {.batch_size = data.size(), .shuffle = false}, rng);
  return *all.begin();
}

double accuracy(const Model& model, const Dataset& data) {
  const Batch batch = whole(data);
  const Values logits = values_of(model(batch.examples).tensor());
  const auto labels = batch.labels.to_vector<std::int64_t>();
  std::int64_t hits = 0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row) * data.classes;
    hits += std::max_element(begin, begin + data.classes) - begin == labels[row] ? 1 : 0;
  }
  return static_cast<double>(hits) / static_cast<double>(labels.size());
}

double trained_accuracy(const Recipe& recipe, std::uint64_t seed) {
  const Dataset train = load_idx(kDigits, Split::train);
  Rng rng(seed);
  const Model model(train, swiglu, recipe, rng);
  AdamW optimizer{model.parameters(), {.learning_rate = 1e-3F}};
  for (const auto& [images, labels] : batches(train, {.batch_size = 64, .epochs = 20}, rng)) {
    Tape tape;
    tape.backward(softmax_cross_entropy(model(images), labels));
    optimizer.step();
    optimizer.zero_grad();
  }
  return accuracy(model, load_idx(kDigits, Split::test));
}

TEST_CASE("digits: FP8 training reaches fp32's accuracy") {
  double fp32 = 0.0;
  double fp8 = 0.0;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    fp32 += trained_accuracy(HighPrecision{}, seed) / 3.0;
    fp8 += trained_accuracy(kDelayed, seed) / 3.0;
  }
  MESSAGE("mean accuracy: fp32 ", fp32, ", delayed ", fp8);
  CHECK(fp32 >= 0.91);
  CHECK(fp8 >= 0.91);
  CHECK(std::fabs(fp32 - fp8) <= 0.01);
}

TEST_CASE("digits: FP8 logits are near fp32's, and not fp32's") {
  const Dataset train = load_idx(kDigits, Split::train);
  const Batch batch = whole(train);
  const auto logits = [&](const Recipe& recipe) {
    Rng rng(1);
    return values_of(Model(train, swiglu, recipe, rng)(batch.examples).tensor());
  };
  const double difference = test::relative_error(logits(kDelayed), logits(HighPrecision{}));
  CAPTURE(difference);
  CHECK(difference > 1e-4);
  CHECK(difference < 0.2);
}

TEST_CASE("digits: FP8 keeps at most 0.70 of fp32's bytes for backward") {
  const Dataset train = load_idx(kDigits, Split::train);
  Rng order(1);
  Batches first = batches(train, {.batch_size = 64}, order);
  const Batch batch = *first.begin();
  const auto bytes = [&](const Recipe& recipe) {
    Rng rng(1);
    const Model model(train, gelu, recipe, rng);
    Tape tape;
    const Variable loss = softmax_cross_entropy(model(batch.examples), batch.labels);
    CHECK(loss.tensor().item<float>() > 0.0F);
    return static_cast<double>(tape.saved_for_backward_bytes());
  };
  const double share = bytes(kDelayed) / bytes(HighPrecision{});
  CAPTURE(share);
  CHECK(share <= 0.70);
  CHECK(share > 0.2);
}

}  // namespace
}  // namespace tape8
