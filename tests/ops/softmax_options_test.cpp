#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/softmax_cross_entropy.hpp>

#include "support/check_op.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::kComputeTypes;
using test::Ran;
using test::Values;
using test::values_of;

using Labels = std::vector<std::int64_t>;
constexpr const char* kOp = "softmax_cross_entropy";

/// The mean cross entropy against smoothed targets over the rows that count, from log softmax.
test::Forward reference(const Labels& labels, const SoftmaxCrossEntropyOptions& options) {
  return [=](const std::vector<Values>& in) -> Values {
    const std::size_t classes = in[0].size() / labels.size();
    const auto smoothing = static_cast<double>(options.label_smoothing);
    double loss = 0.0;
    double counted = 0.0;
    for (std::size_t row = 0; row < labels.size(); ++row) {
      if (options.ignore_index && labels[row] == *options.ignore_index) continue;
      counted += 1.0;
      const double* x = in[0].data() + row * classes;
      const double largest = *std::max_element(x, x + classes);
      double sum = 0.0;
      for (std::size_t c = 0; c < classes; ++c) sum += std::exp(x[c] - largest);
      for (std::size_t c = 0; c < classes; ++c) {
        double target = smoothing / static_cast<double>(classes);
        if (static_cast<std::int64_t>(c) == labels[row]) target += 1.0 - smoothing;
        loss -= target * (x[c] - largest - std::log(sum));
      }
    }
    return {counted == 0.0 ? 0.0 : loss / counted};
  };
}

test::Op loss_of(const Labels& labels, const Shape& batch,
                 const SoftmaxCrossEntropyOptions& options) {
  return [=](const std::vector<Variable>& in) {
    return softmax_cross_entropy(in[0], Tensor::from(labels, batch), options);
  };
}

TEST_CASE("softmax_cross_entropy: smoothing and ignored rows against central differences") {
  const Labels labels{3, -100, 0, 6, -100, 2};
  for (const DType dtype : kComputeTypes) {
    for (const float smoothing : {0.0F, 0.1F, 0.75F}) {
      for (const Shape& batch : {Shape{6}, Shape{2, 3}}) {
        CAPTURE(to_string(dtype));
        CAPTURE(smoothing);
        const SoftmaxCrossEntropyOptions options{.label_smoothing = smoothing,
                                                 .ignore_index = -100};
        const Tensor logits = test::random_tensor(batch.joined({7}), 1, dtype, -4.0, 4.0);
        const Ran ran =
            test::check_op({logits}, loss_of(labels, batch, options), reference(labels, options));
        CHECK(ran.y.dtype() == (dtype == DType::f64 ? DType::f64 : DType::f32));
        const Values gradient = values_of(ran.gradients[0]);
        for (const std::size_t row : {1U, 4U}) {
          for (std::size_t c = 0; c < 7; ++c) CHECK(gradient[row * 7 + c] == 0.0);
        }
      }
    }
  }
}

TEST_CASE("softmax_cross_entropy: an ignore_index that is a class") {
  const Labels labels{1, 0, 2, 0};
  const SoftmaxCrossEntropyOptions options{.ignore_index = 0};
  test::check_op({test::random_tensor({4, 3}, 2)}, loss_of(labels, {4}, options),
                 reference(labels, options));
}

TEST_CASE("softmax_cross_entropy: all rows ignored give 0 and no gradient") {
  for (const DType dtype : kComputeTypes) {
    for (const float smoothing : {0.0F, 0.5F}) {
      const Tensor logits = test::random_tensor({3, 5}, 3, dtype);
      const Ran ran = test::run(
          {logits}, loss_of({9, 9, 9}, {3}, {.label_smoothing = smoothing, .ignore_index = 9}));
      CHECK(ran.y.item<double>() == 0.0);
      CHECK(values_of(ran.gradients[0]) == Values(15, 0.0));
    }
  }
}

TEST_CASE("softmax_cross_entropy: what an ignored row holds does not matter") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits = Tensor::from({1.0F, 2.0F, kNaN, kNaN}, {2, 2});
  const Labels labels{0, -1};
  const Ran ran = test::run({logits}, loss_of(labels, {2}, {.ignore_index = -1}));
  const Ran alone = test::run({logits.slice(0, 0, 1)}, loss_of({0}, {1}, {}));
  CHECK(test::bytes_of(ran.y) == test::bytes_of(alone.y));
  CHECK(values_of(ran.gradients[0])[2] == 0.0);
  CHECK(values_of(ran.gradients[0])[3] == 0.0);
}

TEST_CASE("softmax_cross_entropy: smoothing of large logits, and of a single class") {
  // The mean of the logits enters the loss: -(x - logsumexp) averaged, here (0 + 1000) / 2.
  const SoftmaxCrossEntropyOptions all{.label_smoothing = 0.5F};
  const Tensor logits = Tensor::from({1000.0F, 0.0F}, {1, 2});
  CHECK(softmax_cross_entropy(logits, Tensor::from(Labels{0}, {1}), all).tensor().item<float>() ==
        250.0F);
  const Ran one = test::run({Tensor::from({3.0F}, {1, 1})}, loss_of({0}, {1}, all));
  CHECK(one.y.item<float>() == 0.0F);
  CHECK(values_of(one.gradients[0]) == Values{0.0});
}

TEST_CASE("softmax_cross_entropy: options with views and no rows") {
  const SoftmaxCrossEntropyOptions options{.label_smoothing = 0.2F, .ignore_index = 1};
  for (const DType dtype : kComputeTypes) {
    test::check_views({test::random_tensor({4, 5}, 4, dtype)}, loss_of({0, 1, 2, 4}, {4}, options));
  }
  const Ran none = test::run({Tensor::zeros({0, 5})}, loss_of({}, {0}, options));
  CHECK(none.y.item<float>() == 0.0F);
  CHECK(none.gradients[0].shape() == Shape{0, 5});
  // Labels behind a view.
  const Tensor logits = test::random_tensor({4, 5}, 5);
  const Tensor labels = Tensor::from(Labels{0, 1, 2, 4}, {4});
  CHECK(test::bytes_of(softmax_cross_entropy(logits, test::as_view(labels), options).tensor()) ==
        test::bytes_of(softmax_cross_entropy(logits, labels, options).tensor()));
}

TEST_CASE("softmax_cross_entropy: keeps logits, labels in 32 bits and one f32 a row") {
  CHECK(test::bytes_kept({test::random_tensor({8, 16}, 1)},
                         loss_of(Labels(8, 0), {8}, {.label_smoothing = 0.1F})) ==
        8 * 16 * 4 + 8 * 4 + 8 * 4);
}

TEST_CASE("softmax_cross_entropy: refused options") {
  const Tensor logits = Tensor::zeros({2, 3});
  const Tensor labels = Tensor::from(Labels{0, 1}, {2});
  for (const float bad : {-0.1F, 1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    check_throws<OptionError>(
        kOp, [&] { (void)softmax_cross_entropy(logits, labels, {.label_smoothing = bad}); },
        {"label_smoothing", "[0, 1)"});
  }
  const Tensor beyond = Tensor::from(Labels{0, -100}, {2});
  check_throws<OptionError>(
      kOp, [&] { (void)softmax_cross_entropy(logits, beyond, {.ignore_index = -1}); },
      {"labels[1]", "-100"});
  CHECK_NOTHROW((void)softmax_cross_entropy(logits, beyond, {.ignore_index = -100}));
}

}  // namespace
}  // namespace tape8
