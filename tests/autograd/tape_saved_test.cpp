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

TEST_CASE("saved: changing one in place before backward names op and tensor") {
  const Variable w = parameter(Tensor::full({3}, 2.0));
  Tensor x = Tensor::full({3}, 5.0);
  Tape tape;
  const Variable loss = sum(multiply(w, Variable{x}));
  x.fill(7.0);
  check_throws<StateError>("multiply", [&] { tape.backward(loss); }, {" b "});
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("saved: a change through a view counts, whichever handle made it") {
  const Variable w = parameter(Tensor::full({4}, 2.0));
  {
    Tape tape;
    const Variable loss = sum(multiply(w, Variable{Tensor::full({4}, 5.0)}));
    Tensor view = w.tensor().slice(0, 0, 1);
    view.fill(1.0);
    check_throws<StateError>("multiply", [&] { tape.backward(loss); }, {" a "});
  }
  {
    Tape tape;
    const Variable loss = sum(multiply(w, w));
    tape.backward(loss, {.retain = true});
    Tensor handle = w.tensor();
    (void)handle.mutable_span<float>();
    check_throws<StateError>("multiply", [&] { tape.backward(loss); });
  }
}

TEST_CASE("saved: changing what no closure kept is fine, and so is a change after backward") {
  Variable w = parameter(Tensor::full({3}, 2.0));
  Tensor handle = w.tensor();
  Tape tape;
  const Variable loss = sum(scaled(w, 2.0F));
  handle.fill(9.0);
  tape.backward(loss);
  CHECK(w.grad().to_vector<float>() == std::vector<float>{2, 2, 2});
  handle.fill(1.0);
}

TEST_CASE("saved: bytes count each block once, without parameters") {
  const Variable w = parameter(Tensor::full({64}, 2.0));
  const Tensor x = Tensor::full({64}, 1.0);
  constexpr std::int64_t kBlock = 64 * 4;
  Tape tape;
  CHECK(tape.saved_for_backward_bytes() == 0);
  Variable y = scaled(w, 2.0F);  // keeps nothing
  CHECK(tape.saved_for_backward_bytes() == 0);
  (void)multiply(w, Variable{x});  // w is a parameter
  CHECK(tape.saved_for_backward_bytes() == kBlock);
  (void)multiply(w, Variable{x});
  (void)multiply(w, Variable{x.slice(0, 0, 64)});
  CHECK(tape.saved_for_backward_bytes() == kBlock);
  (void)multiply(y, Variable{x.clone()});  // y and the clone
  CHECK(tape.saved_for_backward_bytes() == 3 * kBlock);
}

struct Lent {
  QuantizedTensor cast;
  Tensor table;
  void visit(SavedVisitor& visitor) const {
    visitor.borrowed("cast", cast);
    visitor.borrowed("table", table);
  }
};

struct Kept {
  QuantizedTensor cast;
  void visit(SavedVisitor& visitor) const { visitor("cast", cast); }
};

QuantizedTensor cast_of(std::int64_t size) {
  return QuantizedTensor(QuantizedPart{.data = Tensor::zeros({size}, DType::e4m3),
                                       .scale_inv = Tensor::from({1.0F}, {}),
                                       .scaling_mode = ScalingMode::per_tensor});
}

TEST_CASE("saved: quantized tensors count their bytes and scale, borrowed ones nothing") {
  const Variable w = parameter(Tensor::full({1}, 2.0));
  const auto pass_through = [](const auto&, Gradients& gradients) {
    gradients.set(0, gradients.output());
  };
  Tape tape;
  (void)record("lent", {w}, Tensor::zeros({1}), Lent{cast_of(100), Tensor::zeros({50})},
               pass_through);
  CHECK(tape.saved_for_backward_bytes() == 0);
  (void)record("kept", {w}, Tensor::zeros({1}), Kept{cast_of(100)}, pass_through);
  CHECK(tape.saved_for_backward_bytes() == 104);
}

TEST_CASE("saved: a borrowed tensor is checked for changes too") {
  const Variable w = parameter(Tensor::full({1}, 2.0));
  Tape tape;
  Tensor table = Tensor::zeros({5});
  const Variable y =
      record("lent", {w}, Tensor::zeros({1}), Lent{QuantizedTensor{}, table},
             [](const Lent&, Gradients& gradients) { gradients.set(0, gradients.output()); });
  table.fill(1.0);
  check_throws<StateError>("lent", [&] { tape.backward(y); }, {"table"});
}

}  // namespace
}  // namespace tape8
