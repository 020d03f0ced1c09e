#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/dense.hpp>

#include "support/expect.hpp"
#include "support/matrix.hpp"
#include "support/passes.hpp"
#include "support/quantizer_sets.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::check_close;
using test::operand;
using test::Values;
using test::values_of;

/// y of a fresh parameter with the same values: nothing that was cast before can reach it.
std::vector<std::uint8_t> fresh_result(const Tensor& x, const Variable& w,
                                       const QuantizerSet& set) {
  return bytes_of(
      dense(x, parameter(w.tensor().clone()), {}, {.quantizer_set = set.clone()}).tensor());
}

TEST_CASE("weight casts: a change of the weight in place is seen") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool quantized : {true, false}) {
      CAPTURE(to_string(dtype));
      CAPTURE(quantized);
      const QuantizerSet set = quantized ? test::make_set({}) : QuantizerSet{};
      const Tensor x = test::random_tensor({4, 8}, 1, dtype);
      const Variable w = parameter(test::random_tensor({8, 3}, 2));
      const auto before = bytes_of(dense(x, w, {}, {.quantizer_set = set}).tensor());
      Tensor handle = w.tensor();
      handle.slice(0, 3, 4).fill(2.0);
      const auto after = bytes_of(dense(x, w, {}, {.quantizer_set = set}).tensor());
      CHECK(after != before);
      CHECK(after == fresh_result(x, w, set));
    }
  }
}

TEST_CASE("weight casts: a change of the scale is seen") {
  QuantizerSet set = test::make_set({});
  const Tensor x = test::random_tensor({4, 8}, 1);
  const Variable w = parameter(test::random_tensor({8, 3}, 2));
  (void)dense(x, w, {}, {.quantizer_set = set});
  set.kernel.set_state(Scale{17.0F}, std::vector<float>{0.0F, 1.0F});
  CHECK(bytes_of(dense(x, w, {}, {.quantizer_set = set}).tensor()) == fresh_result(x, w, set));
}

TEST_CASE("weight casts: casts by several quantizers and none do not mix") {
  const Variable w = parameter(test::random_tensor({8, 3}, 2));
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor x = test::random_tensor({4, 8}, 1, dtype);
    // Scale 1, as a conversion without a quantizer has; then the quantizer goes.
    std::optional<QuantizerSet> passing = make_quantizer_set(DelayedScaling{.amax_history_len = 1});
    CHECK(bytes_of(dense(x, w, {}, {.quantizer_set = *passing}).tensor()) ==
          fresh_result(x, w, *passing));
    passing.reset();
    CHECK(bytes_of(dense(x, w).tensor()) == fresh_result(x, w, {}));
    const QuantizerSet a = test::make_set({});
    const QuantizerSet b = test::make_set({.x = false});
    for (int round = 0; round < 2; ++round) {
      CHECK(bytes_of(dense(x, w, {}, {.quantizer_set = a}).tensor()) == fresh_result(x, w, a));
      CHECK(bytes_of(dense(x, w, {}, {.quantizer_set = b}).tensor()) == fresh_result(x, w, b));
      CHECK(bytes_of(dense(x, w).tensor()) == fresh_result(x, w, {}));
    }
  }
}

TEST_CASE("weight casts: .5 is .5 for every microbatch, and the amax is noted by each step") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 2});
  const Variable w = parameter(Tensor::full({4, 4}, 0.5));
  const Tensor x = Tensor::full({2, 4}, 1.0);
  for (int step = 0; step < 4; ++step) {
    CAPTURE(step);
    for (const bool last : {false, false, true}) {
      Tape tape;
      const Variable y = dense(x, w, {}, {.quantizer_set = set});
      check_close(y.tensor(), Values(8, 2.0), 1e-6);  // 1 / 896 is not an f32
      tape.backward(y, Tensor::full({2, 4}, 1.0), {.advance_quantizers = last});
    }
    CHECK(set.kernel.amax_history() == std::vector<float>{0.0F, 0.5F});
    CHECK(set.kernel.scale() == Scale{896.0F});
  }
  const std::vector<float> expected(16, 4.0F * 3.0F * 2.0F);
  CHECK(w.grad().to_vector<float>() == expected);
}

TEST_CASE("weight casts: a frozen weight's scale settles, and evaluation changes nothing") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 3});
  Variable w = parameter(test::random_tensor({8, 3}, 2));
  w.set_requires_grad(false);
  const Variable x = parameter(test::random_tensor({4, 8}, 1));
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    const Variable y = dense(x, w, {}, {.quantizer_set = set});
    tape.backward(y, Tensor::full({4, 3}, 1.0));
  }
  const auto amax = static_cast<float>(test::largest_magnitude(values_of(w.tensor())));
  CHECK(set.kernel.scale() == Scale{448.0F / amax});
  CHECK(set.kernel.amax_history() == std::vector<float>{0.0F, amax, amax});
  CHECK(x.grad().defined());
  CHECK_FALSE(w.grad().defined());

  const auto before = test::snapshot(set.kernel);
  const auto first = bytes_of(dense(x, w, {}, {.quantizer_set = set}).tensor());
  CHECK(bytes_of(dense(x, w, {}, {.quantizer_set = set}).tensor()) == first);
  CHECK(test::snapshot(set.kernel) == before);
}

TEST_CASE("weight casts: a weight changed between forward and backward is named") {
  for (const bool quantized : {false, true}) {
    CAPTURE(quantized);
    const QuantizerSet set = quantized ? test::make_set({}) : QuantizerSet{};
    const Variable w = parameter(test::random_tensor({8, 3}, 2));
    const Variable x = parameter(test::random_tensor({4, 8}, 1));
    Tape tape;
    const Variable y = dense(x, w, {}, {.quantizer_set = set});
    Tensor handle = w.tensor();
    handle.fill(0.0);
    if (quantized) {
      // The cast that fprop used is what backward reads: it did not change.
      CHECK_NOTHROW(tape.backward(y, Tensor::full({4, 3}, 1.0)));
      CHECK(test::largest_magnitude(values_of(x.grad())) > 0.0);
    } else {
      test::check_throws<StateError>("dense",
                                     [&] {
                                       tape.backward(y, Tensor::full({4, 3}, 1.0));
                                     },
                                     {"kernel"});
    }
  }
}

}  // namespace
}  // namespace tape8
