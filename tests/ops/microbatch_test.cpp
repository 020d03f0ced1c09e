#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/activation.hpp>
#include <tape8/ops/arithmetic.hpp>
#include <tape8/ops/dense.hpp>
#include <tape8/ops/dropout.hpp>
#include <tape8/ops/layernorm.hpp>
#include <tape8/ops/layernorm_dense.hpp>
#include <tape8/ops/reduce.hpp>

#include "support/expect.hpp"
#include "support/passes.hpp"
#include "support/quantizer_sets.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::check_throws;
using test::values_of;

constexpr std::int64_t kRows = 24, kIn = 20, kOut = 16;

/// Parameters of a small network, with what it quantizes by.
struct Model {
  Variable kernel_1, gamma, beta, bias, kernel_2;
  QuantizerSet set_1, set_2;

  explicit Model(const QuantizerSet& set)
      : kernel_1(parameter(test::random_tensor({kIn, 2 * kOut}, 2))),
        gamma(parameter(test::random_tensor({kIn}, 3, DType::f32, 0.5, 1.5))),
        beta(parameter(test::random_tensor({kIn}, 4))),
        bias(parameter(test::random_tensor({2 * kOut}, 5))),
        kernel_2(parameter(test::random_tensor({kOut, kIn}, 6))),
        set_1(set.clone()),
        set_2(set.clone()) {}

  Variable operator()(const Variable& x) const {
    const Variable hidden =
        layernorm_dense(x, kernel_1, gamma, beta, bias, {.quantizer_set = set_1});
    return dense(activation(hidden, swiglu), kernel_2, {}, {.quantizer_set = set_2});
  }
  std::vector<Variable> parameters() const { return {kernel_1, gamma, beta, bias, kernel_2}; }
};

/// Forward and backward over `count` microbatches of `rows` rows each.
void accumulate(const Model& model, const Tensor& x, const Tensor& dy, std::int64_t count) {
  const std::int64_t rows = x.shape()[0] / count;
  for (std::int64_t i = 0; i < count; ++i) {
    Tape tape;
    tape.backward(model(x.slice(0, i * rows, (i + 1) * rows)),
                  dy.slice(0, i * rows, (i + 1) * rows), {.advance_quantizers = i + 1 == count});
  }
}

TEST_CASE("microbatches: their gradients add up to the large batch's") {
  for (const bool quantized : {false, true}) {
    for (const std::int64_t count : {2, 3, 24}) {
      CAPTURE(quantized);
      CAPTURE(count);
      const QuantizerSet set = quantized ? test::make_set({}) : QuantizerSet{};
      const Tensor x = test::random_tensor({kRows, kIn}, 7);
      const Tensor dy = test::random_tensor({kRows, kIn}, 8);
      const Model whole(set);
      const Model parts(set);
      accumulate(whole, x, dy, 1);
      accumulate(parts, x, dy, count);
      for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
        CAPTURE(i);
        // The casts are per element and the scales the same: only the order of f32 sums differs.
        test::check_close(parts.parameters()[i].grad(), values_of(whole.parameters()[i].grad()));
      }
      if (quantized) {
        CHECK(test::snapshot(parts.set_1.x) == test::snapshot(whole.set_1.x));
        CHECK(test::snapshot(parts.set_1.kernel) == test::snapshot(whole.set_1.kernel));
        CHECK(test::snapshot(parts.set_2.x) == test::snapshot(whole.set_2.x));
        CHECK(test::snapshot(parts.set_2.dgrad) == test::snapshot(whole.set_2.dgrad));
      }
    }
  }
}

TEST_CASE("microbatches: gradients in the caller's memory add up to the same bits") {
  const Tensor x = test::random_tensor({kRows, kIn}, 7);
  const Tensor dy = test::random_tensor({kRows, kIn}, 8);
  const Model free({});
  const Model placed({});
  std::vector<Tensor> memory;
  for (Variable p : placed.parameters()) {
    memory.push_back(Tensor::full(p.shape(), 77.0));
    p.set_grad_memory(memory.back());
  }
  accumulate(free, x, dy, 3);
  accumulate(placed, x, dy, 3);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    CHECK(placed.parameters()[i].grad().data() == std::as_const(memory[i]).data());
    CHECK(bytes_of(memory[i]) == bytes_of(free.parameters()[i].grad()));
  }
}

TEST_CASE("microbatches: one cast of a weight serves all of them") {
  const Model model(test::make_set({}));
  const Tensor x = test::random_tensor({kRows, kIn}, 7);
  Tape tape;
  const Variable first = model(x);
  const std::int64_t once = tape.saved_for_backward_bytes();
  const Variable second = model(x);
  CHECK(bytes_of(first.tensor()) == bytes_of(second.tensor()));
  // mu and rsigma, the norm's cast, the activation's x, its result's cast: x and the scales are
  // shared, and there is no byte of a kernel.
  constexpr std::int64_t kAnew = kRows * (2 * 4 + kIn + 2 * kOut * 4 + kOut);
  CHECK(tape.saved_for_backward_bytes() - once == kAnew);
}

TEST_CASE("frozen: a layer's scales settle while gradients flow through it") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 5});
  Model model(set);
  for (Variable p : model.parameters()) p.set_requires_grad(false);
  const Variable x = parameter(test::random_tensor({kRows, kIn}, 7));
  // The scale is right after the first step; from the third on the cast is reused, and notes again.
  for (int step = 0; step < 4; ++step) {
    Tape tape;
    const Variable y = model(x);
    tape.backward(y, test::random_tensor(y.shape(), 8));
  }
  const auto amax = static_cast<float>(test::largest_magnitude(values_of(model.kernel_1.tensor())));
  CHECK(model.set_1.kernel.scale() == Scale{448.0F / amax});
  CHECK(model.set_1.kernel.amax_history() == std::vector<float>{0.0F, amax, amax, amax, amax});
  CHECK(test::largest_magnitude(values_of(x.grad())) > 0.0);
  for (const Variable& p : model.parameters()) CHECK_FALSE(p.grad().defined());
}

TEST_CASE("frozen: a thawed layer gets the gradients of one that was never frozen") {
  const Tensor x = test::random_tensor({kRows, kIn}, 7);
  const Tensor dy = test::random_tensor({kRows, kIn}, 8);
  const Model plain({});
  Model thawed({});
  for (Variable p : thawed.parameters()) p.set_requires_grad(false);
  {
    Tape tape;
    CHECK_FALSE(thawed(x).requires_grad());
    CHECK(tape.size() == 0);
  }
  for (Variable p : thawed.parameters()) p.set_requires_grad(true);
  accumulate(plain, x, dy, 1);
  accumulate(thawed, x, dy, 1);
  for (std::size_t i = 0; i < plain.parameters().size(); ++i) {
    CHECK(bytes_of(thawed.parameters()[i].grad()) == bytes_of(plain.parameters()[i].grad()));
  }
}

TEST_CASE("a result whose tape died: a value without a tape, refused on another") {
  const Variable w = parameter(test::random_tensor({4, 4}, 1));
  Variable y;
  {
    Tape tape;
    y = dense(test::random_tensor({3, 4}, 2), w);
  }
  CHECK(y.requires_grad());
  const Variable z = sum(y * y);
  CHECK_FALSE(z.requires_grad());
  Tape another;
  check_throws<StateError>("add", [&] { (void)(y + y); }, {"a must", "Variable{x.tensor()}"});
  check_throws<StateError>("dense", [&] { (void)dense(y, w); }, {"x must"});
  check_throws<StateError>("backward", [&] { another.backward(y, y.tensor()); }, {"another tape"});
  CHECK(another.size() == 0);
  another.backward(sum(dense(Variable{y.tensor()}, w)));
  CHECK(w.grad().defined());
}

TEST_CASE("a result of a tape that died and another at its address are told apart") {
  const Variable w = parameter(Tensor::full({2}, 1.0));
  Variable old;
  alignas(Tape) std::byte place[sizeof(Tape)];
  auto* first = new (place) Tape;
  old = w + w;
  std::destroy_at(first);
  auto* second = new (place) Tape;
  check_throws<StateError>("add", [&] { (void)(old + w); });
  check_throws<StateError>("backward", [&] { second->backward(old, old.tensor()); });
  std::destroy_at(second);
}

TEST_CASE("a call that is refused on a tape moves neither generator nor quantizer") {
  const Variable w = parameter(test::random_tensor({4, 4}, 1));
  const QuantizerSet set = test::make_set({});
  const auto x_before = test::snapshot(set.x);
  const auto kernel_before = test::snapshot(set.kernel);
  Tape outer;
  const Variable y = w + w;
  const Variable row = sum(y, 0);
  const Tensor ones = Tensor::full({4}, 1.0);
  Rng rng(1);
  {
    Tape inner;
    check_throws<StateError>("dropout", [&] { (void)dropout(y, 0.5F, rng); });
    CHECK(rng.position() == 0);
    check_throws<StateError>("dense", [&] { (void)dense(y, w, {}, {.quantizer_set = set}); });
    check_throws<StateError>("layernorm_dense", [&] {
      (void)layernorm_dense(w, w, ones, {}, row, {.quantizer_set = set});
    });
    check_throws<StateError>("activation", [&] { (void)activation(y, gelu, set.x); });
    check_throws<StateError>("layernorm",
                             [&] { (void)layernorm(w, ones, row, {.quantizer = set.x}); });
    inner.backward(sum(w));
  }
  CHECK(test::snapshot(set.x) == x_before);
  CHECK(test::snapshot(set.kernel) == kernel_before);
}

}  // namespace
}  // namespace tape8
