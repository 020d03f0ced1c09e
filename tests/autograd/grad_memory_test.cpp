#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>

#include "support/expect.hpp"
#include "support/own_ops.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::scaled;
using test::Values;
using test::values_of;

/// Adds `factor` to each element of w's gradient.
void add_to_gradient(const Variable& w, float factor) {
  Tape tape;
  tape.backward(test::sum(scaled(w, factor)));
}

TEST_CASE("grad memory: gradients land in it, add up there, and are overwritten after zero_grad") {
  std::vector<float> memory(6, 77.0F);
  Variable w = parameter(Tensor::zeros({2, 3}));
  w.set_grad_memory(Tensor::wrap(std::span<float>(memory), {2, 3}));
  CHECK_FALSE(w.grad().defined());
  CHECK(memory[0] == 77.0F);  // nothing is written before a backward
  add_to_gradient(w, 2.0F);
  CHECK(w.grad().data() == memory.data());
  CHECK(memory == std::vector<float>(6, 2.0F));
  add_to_gradient(w, 3.0F);
  CHECK(w.grad().data() == memory.data());
  CHECK(memory == std::vector<float>(6, 5.0F));
  w.zero_grad();
  CHECK_FALSE(w.grad().defined());
  add_to_gradient(w, 7.0F);
  CHECK(w.grad().data() == memory.data());
  CHECK(memory == std::vector<float>(6, 7.0F));
}

TEST_CASE("grad memory: several uses in one backward are summed before they land") {
  std::vector<float> memory(3, 77.0F);
  Variable w = parameter(Tensor::full({3}, 2.0));
  w.set_grad_memory(Tensor::wrap(std::span<float>(memory), {3}));
  Tape tape;
  tape.backward(test::sum(test::multiply(w, w)));
  CHECK(memory == std::vector<float>(3, 4.0F));
}

TEST_CASE("grad memory: parts of one buffer, as an all-reduce wants them") {
  const Tensor buffer = Tensor::full({5}, 77.0, DType::bf16);
  Variable a = parameter(Tensor::zeros({2}, DType::bf16));
  Variable b = parameter(Tensor::zeros({3}, DType::bf16));
  a.set_grad_memory(buffer.slice(0, 0, 2));
  b.set_grad_memory(buffer.slice(0, 2, 5));
  Tape tape;
  const Variable y = record("both", {a, b}, Tensor::zeros({1}), NothingSaved{},
                            [](const NothingSaved&, Gradients& gradients) {
                              gradients.set(0, Tensor::full({2}, 1.0, DType::bf16));
                              gradients.set(1, Tensor::full({3}, 2.0, DType::bf16));
                            });
  tape.backward(y);
  CHECK(values_of(buffer) == Values{1, 1, 2, 2, 2});
}

TEST_CASE("grad memory: a gradient that is there moves into it at the next backward") {
  std::vector<float> memory(3, 77.0F);
  Variable w = parameter(Tensor::zeros({3}));
  add_to_gradient(w, 2.0F);
  w.set_grad_memory(Tensor::wrap(std::span<float>(memory), {3}));
  add_to_gradient(w, 3.0F);
  CHECK(w.grad().data() == memory.data());
  CHECK(memory == std::vector<float>(3, 5.0F));
}

TEST_CASE("grad memory: none ends it") {
  std::vector<float> memory(3, 77.0F);
  Variable w = parameter(Tensor::zeros({3}));
  w.set_grad_memory(Tensor::wrap(std::span<float>(memory), {3}));
  add_to_gradient(w, 2.0F);
  w.zero_grad();
  w.set_grad_memory({});
  add_to_gradient(w, 3.0F);
  CHECK(w.grad().data() != memory.data());
  CHECK(values_of(w.grad()) == Values(3, 3.0));
  CHECK(memory == std::vector<float>(3, 2.0F));
}

TEST_CASE("grad memory: a backward that throws leaves it as it was") {
  std::vector<float> memory(3, 77.0F);
  Variable w = parameter(Tensor::zeros({3}));
  w.set_grad_memory(Tensor::wrap(std::span<float>(memory), {3}));
  Tape tape;
  CHECK_THROWS_AS(tape.backward(test::sum(test::failing(w))), std::runtime_error);
  CHECK(memory == std::vector<float>(3, 77.0F));
}

TEST_CASE("grad memory: a cotangent that is the gradient is copied, not adopted") {
  std::vector<float> memory(3, 77.0F);
  Variable w = parameter(Tensor::zeros({3}));
  w.set_grad_memory(Tensor::wrap(std::span<float>(memory), {3}));
  Tensor dy = Tensor::full({3}, 4.0);
  Tape tape;
  const Variable y = record(
      "same", {w}, Tensor::zeros({3}), NothingSaved{},
      [](const NothingSaved&, Gradients& gradients) { gradients.set(0, gradients.output()); });
  tape.backward(y, dy);
  dy.fill(9.0);
  CHECK(memory == std::vector<float>(3, 4.0F));
}

TEST_CASE("grad memory: refusals") {
  constexpr const char* kOp = "set_grad_memory";
  Variable w = parameter(Tensor::zeros({2, 3}));
  check_throws<ShapeError>(kOp,
                           [&] {
                             w.set_grad_memory(Tensor::zeros({3, 2}));
                           },
                           {"(2, 3)", "(3, 2)"});
  check_throws<ShapeError>(kOp, [&] { w.set_grad_memory(Tensor::zeros({6})); }, {"(6)"});
  check_throws<DTypeError>(kOp,
                           [&] {
                             w.set_grad_memory(Tensor::zeros({2, 3}, DType::f16));
                           },
                           {"f32", "f16"});
  check_throws<OptionError>(kOp,
                            [&] {
                              w.set_grad_memory(Tensor::zeros({3, 2}).transpose(0, 1));
                            },
                            {"contiguous"});
  check_throws<StateError>("variable", [] { Variable{}.set_grad_memory(Tensor::zeros({1})); });
  Tape tape;
  Variable y = scaled(w, 2.0F);
  check_throws<StateError>(kOp, [&] { y.set_grad_memory(Tensor::zeros({2, 3})); }, {"leaf"});
  tape.backward(test::sum(y));
  CHECK(values_of(w.grad()) == Values(6, 2.0));  // what was refused left nothing behind
}

TEST_CASE("gradients: an op may write to its own memory again") {
  std::vector<float> scratch(1);
  const auto doubled = [&](const Variable& x) {
    return record("doubled", {x}, Tensor::from({2.0F * x.tensor().item<float>()}, {1}),
                  NothingSaved{}, [&](const NothingSaved&, Gradients& gradients) {
                    scratch[0] = 2.0F * gradients.output().item<float>();
                    gradients.set(0, Tensor::wrap(std::span<float>(scratch), {1}));
                  });
  };
  const Variable a = parameter(Tensor::from({1.0F}, {1}));
  const Variable b = parameter(Tensor::from({1.0F}, {1}));
  const auto backward = [&](const Variable& x, float dy) {
    Tape tape;
    tape.backward(doubled(x), Tensor::from({dy}, {1}));
  };
  backward(a, 1.0F);
  backward(b, 10.0F);
  CHECK(a.grad().item<float>() == 2.0F);
  CHECK(b.grad().item<float>() == 20.0F);
  CHECK(a.grad().data() != static_cast<const void*>(scratch.data()));
}

TEST_CASE("set_grad_memory: not the leaf's own memory, and none ends it at once") {
  Variable w = parameter(Tensor::from({3.0F}, {1}));
  test::check_throws<OptionError>("set_grad_memory", [&] { w.set_grad_memory(w.tensor()); },
                                  {"own"});
  std::vector<float> memory(1);
  w.set_grad_memory(Tensor::wrap(std::span<float>(memory), {1}));
  const auto backward = [&](float dy) {
    Tape tape;
    tape.backward(record("pass", {w}, w.tensor().clone(), NothingSaved{},
                         [](const NothingSaved&, Gradients& gradients) {
                           gradients.set(0, gradients.output().clone());
                         }),
                  Tensor::from({dy}, {1}));
  };
  backward(2.0F);
  CHECK(memory[0] == 2.0F);
  w.set_grad_memory({});
  backward(5.0F);
  CHECK(memory[0] == 2.0F);
  CHECK(w.grad().item<float>() == 7.0F);
}

}  // namespace
}  // namespace tape8
