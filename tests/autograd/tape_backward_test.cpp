#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>

#include "support/expect.hpp"
#include "support/own_ops.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::check_throws;
using test::multiply;
using test::scaled;
using test::sum;

using Floats = std::vector<float>;

Floats grad_of(const Variable& w) { return w.grad().to_vector<float>(); }

Variable weight(double value = 2.0) { return parameter(Tensor::full({3}, value)); }

TEST_CASE("backward: chains multiply") {
  const Variable w = weight();
  Tape tape;
  tape.backward(sum(scaled(scaled(scaled(w, 2.0F), 3.0F), -5.0F)));
  CHECK(grad_of(w) == Floats{-30, -30, -30});
}

TEST_CASE("backward: diamonds add, each node runs once") {
  const Variable w = weight(3.0);
  int runs = 0;
  Tape tape;
  const Variable top = record("counts", {w}, w.tensor().clone(), NothingSaved{},
                              [&runs](const NothingSaved&, Gradients& gradients) {
                                ++runs;
                                gradients.set(0, gradients.output());
                              });
  const Variable left = scaled(top, 2.0F);
  const Variable right = scaled(top, 7.0F);
  // d/dt (2t * 7t + t) = 28 t + 1 at t = 3
  const Variable product = multiply(left, right);
  tape.backward(sum(product), {.retain = true});
  CHECK(runs == 1);
  CHECK(grad_of(w) == Floats{84, 84, 84});
}

TEST_CASE("backward: an op that takes one variable twice") {
  const Variable w = weight(3.0);
  Tape tape;
  tape.backward(sum(multiply(w, w)));
  CHECK(grad_of(w) == Floats{6, 6, 6});
}

TEST_CASE("backward: many uses add up in a fixed order, the same bits every run") {
  const auto run = [] {
    const Variable w = parameter(test::random_tensor({257}, 1));
    Tape tape;
    Variable total = scaled(w, 0.1F);
    for (int i = 0; i < 40; ++i) {
      total = multiply(total, Variable{Tensor::full({257}, 1.001)});
      if (i % 3 == 0) total = multiply(total, w);
    }
    tape.backward(sum(total));
    return bytes_of(w.grad());
  };
  const auto first = run();
  for (int i = 0; i < 3; ++i) CHECK(run() == first);
}

TEST_CASE("backward: uses add up to the sum in float64") {
  const Variable w = weight(1.0);
  const test::Values factors = test::random_values(100, 5);
  Tape tape;
  std::vector<Variable> uses;
  for (const double factor : factors) uses.push_back(scaled(w, static_cast<float>(factor)));
  double total = 0.0;
  for (const double factor : factors) total += static_cast<double>(static_cast<float>(factor));
  const Variable joined = record("join", {uses[0], uses[1]}, Tensor::zeros({3}), NothingSaved{},
                                 [](const NothingSaved&, Gradients& gradients) {
                                   for (const int i : {0, 1}) gradients.set(i, gradients.output());
                                 });
  Variable all = joined;
  for (std::size_t i = 2; i < uses.size(); ++i) {
    all = record("join", {all, uses[i]}, Tensor::zeros({3}), NothingSaved{},
                 [](const NothingSaved&, Gradients& gradients) {
                   for (const int k : {0, 1}) gradients.set(k, gradients.output());
                 });
  }
  tape.backward(sum(all));
  test::check_close(w.grad(), {total, total, total});
}

TEST_CASE("backward: gradients add to those of earlier passes until zero_grad") {
  Variable w = weight();
  for (const float expected : {3.0F, 6.0F, 9.0F}) {
    Tape tape;
    tape.backward(sum(scaled(w, 3.0F)));
    CHECK(grad_of(w) == Floats(3, expected));
  }
  w.zero_grad();
  Tape tape;
  tape.backward(sum(scaled(w, 3.0F)));
  CHECK(grad_of(w) == Floats{3, 3, 3});
}

TEST_CASE("backward: a gradient is memory of its own") {
  const Variable w = parameter(Tensor::full({3}, 1.0));
  const Variable v = parameter(Tensor::full({3}, 1.0));
  Tensor dy = Tensor::from({1.0F, 2.0F, 3.0F}, {3});
  const auto pass_through = [](const Variable& a, const Variable& b) {
    return record("both", {a, b}, Tensor::zeros({3}), NothingSaved{},
                  [](const NothingSaved&, Gradients& gradients) {
                    gradients.set(0, gradients.output());
                    gradients.set(1, gradients.output());
                  });
  };
  {
    Tape tape;
    tape.backward(pass_through(w, v), dy);
  }
  CHECK_FALSE(w.grad().shares_storage(v.grad()));
  CHECK_FALSE(w.grad().shares_storage(dy));
  CHECK_FALSE(v.grad().shares_storage(dy));
  {
    Tape tape;
    tape.backward(scaled(w, 10.0F), dy);
  }
  CHECK(grad_of(w) == Floats{11, 22, 33});
  CHECK(grad_of(v) == Floats{1, 2, 3});
  CHECK(dy.to_vector<float>() == Floats{1, 2, 3});
}

TEST_CASE("backward: what the result does not depend on is left alone") {
  const Variable w = weight();
  const Variable unused = weight();
  Tape tape;
  (void)sum(scaled(unused, 3.0F));
  tape.backward(sum(w));
  CHECK_FALSE(unused.grad().defined());
  CHECK(w.grad().defined());
}

TEST_CASE("backward: a parameter that is frozen between forward and backward") {
  Variable w = weight();
  const Variable v = weight(5.0);
  Tape tape;
  const Variable loss = sum(multiply(w, v));
  w.set_requires_grad(false);
  tape.backward(loss);
  CHECK(grad_of(v) == Floats{2, 2, 2});
}

TEST_CASE("backward: a second one is refused unless the first retained") {
  const Variable w = weight();
  {
    Tape tape;
    const Variable loss = sum(scaled(w, 3.0F));
    tape.backward(loss);
    check_throws<StateError>("backward", [&] { tape.backward(loss); }, {"retain"});
    CHECK(grad_of(w) == Floats{3, 3, 3});
  }
  {
    Tape tape;
    const Variable loss = sum(scaled(w, 3.0F));
    tape.backward(loss, {.retain = true});
    tape.backward(loss, {.retain = true});
    tape.backward(loss);
    CHECK(grad_of(w) == Floats{12, 12, 12});
    check_throws<StateError>("backward", [&] { tape.backward(loss); }, {"retain"});
  }
}

TEST_CASE("backward: closures and what they saved go as they are passed") {
  const Variable w = weight();
  Tensor saved = Tensor::full({3}, 4.0);
  Tape tape;
  const Variable loss = sum(multiply(w, Variable{saved}));
  CHECK(saved.use_count() > 1);
  CHECK(tape.saved_for_backward_bytes() > 0);
  tape.backward(loss);
  CHECK(saved.use_count() == 1);
  CHECK(tape.saved_for_backward_bytes() == 0);
}

TEST_CASE("backward: needs one element, or a cotangent of the result's form") {
  const Variable w = weight();
  Tape tape;
  const Variable y = scaled(w, 2.0F);
  check_throws<ShapeError>("backward", [&] { tape.backward(y); }, {"(3)"});
  check_throws<ShapeError>("backward", [&] { tape.backward(y, Tensor::zeros({4})); },
                           {"(3)", "(4)"});
  check_throws<ShapeError>("backward", [&] { tape.backward(y, Tensor::zeros({1, 3})); });
  check_throws<DTypeError>("backward", [&] { tape.backward(y, Tensor::zeros({3}, DType::bf16)); },
                           {"f32", "bf16"});
  CHECK_THROWS_AS(tape.backward(y, Tensor{}), Error);
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("backward: a cotangent weighs the gradients") {
  const Variable w = weight();
  Tape tape;
  tape.backward(scaled(w, 2.0F), Tensor::from({1.0F, -1.0F, 0.5F}, {3}));
  CHECK(grad_of(w) == Floats{2, -2, 1});
}

TEST_CASE("backward: one element may have any rank") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1, 1}}) {
    const Variable w = parameter(Tensor::full(shape, 2.0));
    Tape tape;
    tape.backward(scaled(w, 4.0F));
    CHECK(w.grad().shape() == shape);
    CHECK(w.grad().item<float>() == 4.0F);
  }
}

TEST_CASE("backward: of none, of a leaf, of another tape's result") {
  const Variable w = parameter(Tensor::full({1}, 2.0));
  Tape outer;
  const Variable outer_loss = sum(w);
  {
    Tape inner;
    check_throws<StateError>("backward", [&] { inner.backward(outer_loss); });
    check_throws<StateError>("backward", [&] { inner.backward(w); });
    check_throws<StateError>("backward", [&] { inner.backward(Variable{Tensor::zeros({1})}); });
    CHECK_THROWS_AS(inner.backward(Variable{}), Error);
  }
  outer.backward(outer_loss);
  CHECK(grad_of(w) == Floats{1});
}

TEST_CASE("backward: one that throws leaves every gradient as it was, and the tape spent") {
  const Variable w = weight();
  const Variable v = weight();
  {
    Tape tape;
    tape.backward(sum(multiply(w, v)));
  }
  const auto w_before = bytes_of(w.grad());
  const auto v_before = bytes_of(v.grad());
  Tape tape;
  // v's use comes later on the tape, so backward passes it before it fails.
  const Variable bad = test::failing(scaled(w, 2.0F));
  const Variable loss = sum(multiply(multiply(bad, v), w));
  CHECK_THROWS_WITH_AS(tape.backward(loss), "on purpose", std::runtime_error);
  CHECK(bytes_of(w.grad()) == w_before);
  CHECK(bytes_of(v.grad()) == v_before);
  check_throws<StateError>("backward", [&] { tape.backward(loss); });
  // The tape still records, as the current one does.
  CHECK(Tape::current() == &tape);
}

TEST_CASE("backward: zero elements") {
  const Variable w = parameter(Tensor::zeros({0, 3}));
  Tape tape;
  tape.backward(sum(scaled(w, 2.0F)));
  CHECK(w.grad().shape() == Shape{0, 3});
}

TEST_CASE("backward: a chain of 100000 nodes needs no deep stack") {
  const Variable w = parameter(Tensor::full({1}, 1.0));
  {
    Tape tape;
    Variable y = w;
    for (int i = 0; i < 100000; ++i) y = scaled(y, 1.0F);
    CHECK(tape.size() == 100000);
    tape.backward(y);
  }
  CHECK(grad_of(w) == Floats{1});
  // Nor does a tape that dies unused.
  Tape tape;
  Variable y = w;
  for (int i = 0; i < 100000; ++i) y = scaled(y, 1.0F);
}

TEST_CASE("backward: ops in a closure are not recorded") {
  const Variable w = weight();
  Tape tape;
  const Variable y = record("nested", {w}, Tensor::zeros({3}), NothingSaved{},
                            [&w](const NothingSaved&, Gradients& gradients) {
                              CHECK(Tape::current() == nullptr);
                              gradients.set(0, scaled(w, 2.0F).tensor());
                            });
  tape.backward(sum(y));
  CHECK(tape.size() == 2);
  CHECK(grad_of(w) == Floats{4, 4, 4});
}

}  // namespace
}  // namespace tape8
