#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/softmax_cross_entropy.hpp>

#include "support/expect.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::check_throws;
using test::Values;
using test::values_of;

std::vector<std::int64_t> make_labels(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> labels;
  for (const double value : test::random_values(rows, 21, 0.0, static_cast<double>(classes))) {
    labels.push_back(std::min(static_cast<std::int64_t>(value), classes - 1));
  }
  return labels;
}

double reference(const Values& logits, const std::vector<std::int64_t>& labels) {
  const std::size_t classes = logits.size() / std::max<std::size_t>(labels.size(), 1);
  double loss = 0.0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const double* values = logits.data() + row * classes;
    const double largest = *std::max_element(values, values + classes);
    double sum = 0.0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(values[c] - largest);
    loss += largest + std::log(sum) - values[static_cast<std::size_t>(labels[row])];
  }
  return labels.empty() ? 0.0 : loss / static_cast<double>(labels.size());
}

Values reference_gradient(const Values& logits, const std::vector<std::int64_t>& labels) {
  const std::size_t classes = logits.size() / std::max<std::size_t>(labels.size(), 1);
  Values gradient(logits.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const double* values = logits.data() + row * classes;
    const double largest = *std::max_element(values, values + classes);
    double sum = 0.0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(values[c] - largest);
    for (std::size_t c = 0; c < classes; ++c) {
      const double hit = static_cast<std::size_t>(labels[row]) == c ? 1.0 : 0.0;
      gradient[row * classes + c] =
          (std::exp(values[c] - largest) / sum - hit) / static_cast<double>(labels.size());
    }
  }
  return gradient;
}

TEST_CASE("softmax_cross_entropy: loss and gradient against float64") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 2}, Shape{7, 10}, Shape{33, 767}, Shape{5},
                               Shape{2, 3, 11}, Shape{64, 16}}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(shape));
      const Shape batch = shape.axes(0, shape.rank() - 1);
      const Tensor logits = test::random_tensor(shape, 1, dtype, -8.0, 8.0);
      const auto labels = make_labels(batch.numel(), shape[-1]);
      const Variable x = parameter(logits);
      Tape tape;
      const Variable loss = softmax_cross_entropy(x, Tensor::from(labels, batch));
      CHECK(loss.shape() == Shape{});
      CHECK(loss.dtype() == DType::f32);
      check_close(loss.tensor(), {reference(values_of(logits), labels)}, 1e-5);
      tape.backward(loss);
      CHECK(x.grad().dtype() == dtype);
      check_close(x.grad(), reference_gradient(values_of(logits), labels));
    }
  }
}

TEST_CASE("softmax_cross_entropy: the gradient equals central differences") {
  const Tensor logits = test::random_tensor({3, 5}, 2, DType::f32, -3.0, 3.0);
  const std::vector<std::int64_t> labels{4, 0, 2};
  const Variable x = parameter(logits);
  Tape tape;
  tape.backward(softmax_cross_entropy(x, Tensor::from(labels, {3})));
  check_close(x.grad(),
              test::central_differences([&](const Values& at) { return reference(at, labels); },
                                        values_of(logits)));
}

TEST_CASE("softmax_cross_entropy: the gradient is weighed by the loss's own") {
  const Tensor logits = test::random_tensor({3, 5}, 2);
  const Tensor labels = Tensor::from({std::int32_t{1}, std::int32_t{0}, std::int32_t{2}}, {3});
  const auto gradient = [&](float weight) {
    const Variable x = parameter(logits);
    Tape tape;
    tape.backward(softmax_cross_entropy(x, labels), Tensor::from({weight}, {}));
    return values_of(x.grad());
  };
  const Values one = gradient(1.0F);
  Values four = gradient(4.0F);
  for (double& value : four) value /= 4.0;
  CHECK(test::relative_error(four, one) < 1e-6);
}

TEST_CASE("softmax_cross_entropy: labels of any integer type") {
  const Tensor logits = test::random_tensor({4, 6}, 3);
  const Tensor labels =
      Tensor::from({std::int64_t{5}, std::int64_t{0}, std::int64_t{3}, std::int64_t{3}}, {4});
  const float expected = softmax_cross_entropy(logits, labels).tensor().item<float>();
  for (const DType dtype : {DType::i32, DType::u8}) {
    CHECK(softmax_cross_entropy(logits, labels.to(dtype)).tensor().item<float>() == expected);
  }
}

TEST_CASE("softmax_cross_entropy: huge logits neither overflow nor lose the label") {
  for (const float large : {100.0F, 1e4F, 1e30F}) {
    CAPTURE(large);
    const Tensor labels = Tensor::from({std::int32_t{0}, std::int32_t{1}}, {2});
    const Tensor logits = Tensor::from({large, -large, -large, large}, {2, 2});
    const Variable x = parameter(logits);
    Tape tape;
    const Variable loss = softmax_cross_entropy(x, labels);
    CHECK(loss.tensor().item<float>() == 0.0F);
    tape.backward(loss);
    CHECK(test::largest_magnitude(values_of(x.grad())) < 1e-30);
  }
  const Tensor wrong = Tensor::from({1000.0F, 0.0F}, {1, 2});
  const Variable x = parameter(wrong);
  Tape tape;
  const Variable loss = softmax_cross_entropy(x, Tensor::from({std::int32_t{1}}, {1}));
  CHECK(loss.tensor().item<float>() == 1000.0F);
  tape.backward(loss);
  CHECK(values_of(x.grad()) == Values{1.0, -1.0});
}

TEST_CASE("softmax_cross_entropy: no rows, and one class") {
  const Variable x = parameter(Tensor::zeros({0, 10}));
  {
    Tape tape;
    const Variable loss = softmax_cross_entropy(x, Tensor::zeros({0}, DType::i32));
    CHECK(loss.tensor().item<float>() == 0.0F);
    tape.backward(loss);
    CHECK(x.grad().shape() == Shape{0, 10});
  }
  const Variable one = parameter(Tensor::from({3.0F, -2.0F}, {2, 1}));
  Tape tape;
  const Variable loss = softmax_cross_entropy(one, Tensor::zeros({2}, DType::i32));
  CHECK(loss.tensor().item<float>() == 0.0F);
  tape.backward(loss);
  CHECK(values_of(one.grad()) == Values{0.0, 0.0});
}

TEST_CASE("softmax_cross_entropy: refusals") {
  constexpr const char* kOp = "softmax_cross_entropy";
  const Tensor logits = Tensor::zeros({2, 3});
  const auto labels = [](std::int64_t a, std::int64_t b, DType dtype = DType::i64) {
    return Tensor::from({a, b}, {2}, dtype);
  };
  check_throws<ShapeError>(kOp,
                           [&] { softmax_cross_entropy(logits, Tensor::zeros({3}, DType::i32)); },
                           {"labels", "(2)", "(3)"});
  check_throws<ShapeError>(kOp,
                           [&] {
                             softmax_cross_entropy(logits, Tensor::zeros({2, 1}, DType::i32));
                           },
                           {"labels"});
  check_throws<ShapeError>(
      kOp, [&] { softmax_cross_entropy(Tensor::zeros({}), Tensor::zeros({}, DType::i32)); });
  check_throws<DTypeError>(kOp, [&] { softmax_cross_entropy(logits, Tensor::zeros({2})); },
                           {"labels", "f32"});
  check_throws<DTypeError>(kOp,
                           [&] {
                             softmax_cross_entropy(Tensor::zeros({2, 3}, DType::i32), labels(0, 1));
                           },
                           {"logits", "i32"});
  check_throws<OptionError>(kOp, [&] { softmax_cross_entropy(logits, labels(0, 3)); },
                            {"labels[1]", "3"});
  check_throws<OptionError>(kOp, [&] { softmax_cross_entropy(logits, labels(-1, 0)); },
                            {"labels[0]", "-1"});
  // Past 32 bits, where a narrowing before the check would make it 0.
  check_throws<OptionError>(
      kOp, [&] { softmax_cross_entropy(logits, labels(std::int64_t{1} << 32, 0)); }, {"labels[0]"});
  check_throws<OptionError>(kOp, [&] { softmax_cross_entropy(logits, labels(0, 200, DType::u8)); });
  CHECK_THROWS_AS(softmax_cross_entropy(Variable{}, labels(0, 0)), Error);
  CHECK_THROWS_AS(softmax_cross_entropy(logits, Tensor{}), Error);
}

}  // namespace
}  // namespace tape8
