#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>

#include "support/expect.hpp"
#include "support/own_ops.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::multiply;
using test::scaled;
using test::sum;

Variable weight(double value = 2.0) { return parameter(Tensor::full({3}, value)); }

TEST_CASE("record: without a tape, or without a parameter, results are constants") {
  const Variable w = weight();
  CHECK(Tape::current() == nullptr);
  const Variable y = scaled(w, 2.0F);
  CHECK_FALSE(y.requires_grad());
  CHECK(y.is_leaf());
  CHECK(y.tensor().to_vector<float>() == std::vector<float>{4, 4, 4});

  Tape tape;
  CHECK(Tape::current() == &tape);
  const Variable constant = scaled(Variable{Tensor::full({3}, 1.0)}, 2.0F);
  CHECK_FALSE(constant.requires_grad());
  CHECK(tape.size() == 0);
  (void)scaled(w, 2.0F);
  CHECK(tape.size() == 1);
  // What was computed before the tape is a constant on it.
  CHECK_FALSE(scaled(y, 2.0F).requires_grad());
  CHECK(tape.size() == 1);
}

TEST_CASE("record: a parameter that is frozen is a constant to what comes after") {
  Variable w = weight();
  w.set_requires_grad(false);
  const Variable v = weight(5.0);
  Tape tape;
  CHECK_FALSE(scaled(w, 2.0F).requires_grad());
  tape.backward(sum(multiply(w, v)));
  CHECK_FALSE(w.grad().defined());
  CHECK(v.grad().to_vector<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("record: needs() is asked of each input, and is false for constants and none") {
  Variable frozen = weight();
  frozen.set_requires_grad(false);
  const Variable w = weight();
  std::vector<bool> needed;
  Tape tape;
  const Variable y =
      record("asks", {frozen, Variable{Tensor::zeros({3})}, Variable{}, w}, Tensor::zeros({3}),
             NothingSaved{}, [&needed](const NothingSaved&, Gradients& gradients) {
               for (const int i : {0, 1, 2, 3}) needed.push_back(gradients.needs(i));
               gradients.set(3, gradients.output());
             });
  tape.backward(sum(y));
  CHECK(needed == std::vector<bool>{false, false, false, true});
  CHECK(w.grad().to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("record: the cotangent is contiguous, of the output's shape and dtype") {
  const Variable w = parameter(Tensor::zeros({2, 3}, DType::bf16));
  Tape tape;
  bool right = false;
  const Variable y =
      record("wide", {w}, Tensor::zeros({2, 3}, DType::bf16), NothingSaved{},
             [&right](const NothingSaved&, Gradients& gradients) {
               const Tensor& dy = gradients.output();
               right = dy.is_contiguous() && dy.shape() == Shape{2, 3} && dy.dtype() == DType::bf16;
               gradients.set(0, dy);
             });
  const Tensor dy = test::random_tensor({3, 2}, 1, DType::bf16).transpose(0, 1);
  tape.backward(y, dy);
  CHECK(right);
  CHECK(test::values_of(w.grad()) == test::values_of(dy));
}

TEST_CASE("record: gradients of another form are refused") {
  const auto run = [](Tensor gradient) {
    const Variable w = parameter(Tensor::zeros({2, 3}));
    Tape tape;
    const Variable y = record(
        "wrong", {w}, Tensor::zeros({1}), NothingSaved{},
        [gradient](const NothingSaved&, Gradients& gradients) { gradients.set(0, gradient); });
    try {
      tape.backward(y);
    } catch (...) {
      CHECK_FALSE(w.grad().defined());
      throw;
    }
  };
  check_throws<ShapeError>("wrong", [&] { run(Tensor::zeros({3, 2})); }, {"(2, 3)", "(3, 2)"});
  check_throws<ShapeError>("wrong", [&] { run(Tensor::zeros({6})); });
  check_throws<ShapeError>("wrong", [&] { run(Tensor{}); });
  check_throws<DTypeError>("wrong",
                           [&] {
                             run(Tensor::zeros({2, 3}, DType::bf16));
                           },
                           {"f32", "bf16"});
  run(Tensor::zeros({3, 2}).transpose(0, 1));
}

TEST_CASE("record: a gradient left out, or set for an input that is not there") {
  const Variable w = weight();
  {
    Tape tape;
    const Variable y = record("forgets", {w}, Tensor::zeros({1}), NothingSaved{},
                              [](const NothingSaved&, Gradients&) {});
    check_throws<StateError>("forgets", [&] { tape.backward(y); });
  }
  {
    Tape tape;
    const Variable y =
        record("beyond", {w}, Tensor::zeros({1}), NothingSaved{},
               [](const NothingSaved&, Gradients& gradients) { (void)gradients.needs(1); });
    CHECK_THROWS_AS(tape.backward(y), Error);
  }
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("record: tapes nest, the innermost records") {
  const Variable w = weight();
  Tape outer;
  const Variable y = scaled(w, 3.0F);
  {
    Tape inner;
    CHECK(Tape::current() == &inner);
    inner.backward(sum(scaled(w, 5.0F)));
    CHECK(inner.size() == 2);
  }
  CHECK(Tape::current() == &outer);
  CHECK(outer.size() == 1);
  CHECK(w.grad().to_vector<float>() == std::vector<float>{5, 5, 5});
  outer.backward(sum(y));
  CHECK(w.grad().to_vector<float>() == std::vector<float>{8, 8, 8});
}

TEST_CASE("record: an outer tape that dies first leaves the inner one current") {
  const Variable w = weight();
  auto outer = std::make_unique<Tape>();
  auto inner = std::make_unique<Tape>();
  outer.reset();
  CHECK(Tape::current() == inner.get());
  inner->backward(sum(w));
  inner.reset();
  CHECK(Tape::current() == nullptr);
  CHECK(w.grad().to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("record: results of another tape are refused, their values are not") {
  const Variable w = weight();
  Tape outer;
  const Variable y = scaled(w, 3.0F);
  {
    Tape inner;
    check_throws<StateError>("multiply", [&] { multiply(w, y); }, {"input 1"});
    check_throws<StateError>("scaled", [&] { scaled(y, 2.0F); }, {"input 0"});
    CHECK(inner.size() == 0);
    inner.backward(sum(multiply(w, Variable{y.tensor()})));
  }
  CHECK(w.grad().to_vector<float>() == std::vector<float>{6, 6, 6});
  outer.backward(sum(y));
}

TEST_CASE("record: results outlive their tape as values") {
  const Variable w = weight();
  Variable y;
  {
    Tape tape;
    y = scaled(w, 3.0F);
  }
  CHECK(y.tensor().to_vector<float>() == std::vector<float>{6, 6, 6});
  CHECK_FALSE(scaled(y, 2.0F).requires_grad());
  Tape another;
  check_throws<StateError>("scaled", [&] { scaled(y, 2.0F); });
}

}  // namespace
}  // namespace tape8
