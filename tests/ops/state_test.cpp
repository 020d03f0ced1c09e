#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/threads.hpp>
#include <tape8/ops/activation.hpp>
#include <tape8/ops/arithmetic.hpp>
#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm_dense.hpp>
#include <tape8/ops/reshape.hpp>
#include <tape8/ops/softmax_cross_entropy.hpp>

#include "support/expect.hpp"
#include "support/passes.hpp"
#include "support/quantizer_sets.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::Ran;

constexpr std::int64_t kRows = 37, kIn = 48, kOut = 64;

/// Two layers with a gated activation between them.
Variable network(const std::vector<Variable>& in, const QuantizerSet& first,
                 const QuantizerSet& second) {
  const Variable hidden =
      layernorm_dense(in[0], in[1], in[2], in[3], in[4], {.quantizer_set = first});
  const Variable gated = activation(hidden, swiglu);
  return add(dense(gated, in[5], {}, {.quantizer_set = second}), in[0]);
}

std::vector<Tensor> network_inputs(DType dtype, std::int64_t rows = kRows) {
  return {test::random_tensor({rows, kIn}, 1, dtype),
          test::random_tensor({kIn, kOut}, 2, dtype),
          test::random_tensor({kIn}, 3, dtype, 0.5, 1.5),
          test::random_tensor({kIn}, 4, dtype),
          test::random_tensor({kOut}, 5, dtype),
          test::random_tensor({kOut / 2, kIn}, 6, dtype)};
}

std::vector<std::vector<std::uint8_t>> bits_of(const Ran& ran) {
  std::vector<std::vector<std::uint8_t>> bits{bytes_of(ran.y)};
  for (const Tensor& gradient : ran.gradients) bits.push_back(bytes_of(gradient));
  return bits;
}

TEST_CASE("ops: the same bits every run and with any number of threads") {
  const int before = num_threads();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool quantized : {false, true}) {
      for (const std::int64_t rows : {kRows, std::int64_t{600}}) {
        CAPTURE(to_string(dtype));
        CAPTURE(quantized);
        CAPTURE(rows);
        const std::vector<Tensor> inputs = network_inputs(dtype, rows);
        const auto run = [&](int threads) {
          set_num_threads(threads);
          const QuantizerSet first = quantized ? test::make_set({}) : QuantizerSet{};
          const QuantizerSet second = quantized ? test::make_set({}) : QuantizerSet{};
          return bits_of(test::run(
              inputs, [&](const std::vector<Variable>& in) { return network(in, first, second); }));
        };
        const auto one = run(1);
        CHECK(run(1) == one);
        CHECK(run(2) == one);
        CHECK(run(3) == one);
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("ops: without a tape no state moves, bit for bit, and the result is the tape's") {
  const QuantizerSet set = test::make_set({});
  const std::vector<Tensor> inputs = network_inputs(DType::bf16);
  const std::vector<Variable> in(inputs.begin(), inputs.end());
  const std::vector<Quantizer> quantizers{set.x, set.kernel, set.dgrad};
  std::vector<test::QuantizerSnapshot> before;
  for (const Quantizer& q : quantizers) before.push_back(test::snapshot(q));
  const auto first = bytes_of(network(in, set, set).tensor());
  for (int i = 0; i < 3; ++i) CHECK(bytes_of(network(in, set, set).tensor()) == first);
  for (std::size_t i = 0; i < quantizers.size(); ++i) {
    CHECK(test::snapshot(quantizers[i]) == before[i]);
  }
  Tape tape;
  CHECK(bytes_of(network(in, set, set).tensor()) == first);
}

TEST_CASE("ops: microbatches without advancing, then with, leave the state of one pass") {
  const QuantizerSet whole = test::make_set({});
  const QuantizerSet parts = test::make_set({});
  const Tensor x = test::random_tensor({kRows, kIn}, 1);
  const Tensor kernel = test::random_tensor({kIn, kOut}, 2);
  const Tensor dy = test::random_tensor({kRows, kOut}, 3);
  {
    const Variable w = parameter(kernel);
    Tape tape;
    tape.backward(dense(x, w, {}, {.quantizer_set = whole}), dy);
  }
  const Variable w = parameter(kernel);
  for (const std::int64_t begin : {0, 10, 20}) {
    const std::int64_t end = begin == 20 ? kRows : begin + 10;
    Tape tape;
    tape.backward(dense(x.slice(0, begin, end), w, {}, {.quantizer_set = parts}),
                  dy.slice(0, begin, end), {.advance_quantizers = begin == 20});
  }
  CHECK(test::snapshot(parts.x) == test::snapshot(whole.x));
  CHECK(test::snapshot(parts.kernel) == test::snapshot(whole.kernel));
  CHECK(test::snapshot(parts.dgrad) == test::snapshot(whole.dgrad));
}

TEST_CASE("ops: no rows leave x's and dgrad's history as it was") {
  const QuantizerSet set = test::make_set({});
  const auto x_before = test::snapshot(set.x);
  const auto dgrad_before = test::snapshot(set.dgrad);
  const Ran ran = test::run(
      {Tensor::zeros({0, 128}), test::random_tensor({128, 64}, 1), test::random_tensor({64}, 2)},
      [&](const std::vector<Variable>& in) {
        return dense(in[0], in[1], in[2], {.quantizer_set = set});
      });
  CHECK(ran.y.shape() == Shape{0, 64});
  CHECK(test::values_of(ran.gradients[1]) == test::Values(128 * 64, 0.0));
  CHECK(test::values_of(ran.gradients[2]) == test::Values(64, 0.0));
  CHECK(test::snapshot(set.x) == x_before);
  CHECK(test::snapshot(set.dgrad) == dgrad_before);
}

TEST_CASE("ops: a call that throws leaves the quantizers as they were") {
  const QuantizerSet set = test::make_set({});
  const auto before = test::snapshot(set.x);
  const Variable w = parameter(test::random_tensor({5, 3}, 1));
  {
    Tape tape;
    CHECK_THROWS_AS(dense(Tensor::zeros({2, 4}), w, {}, {.quantizer_set = set}), ShapeError);
    CHECK(tape.size() == 0);
    tape.backward(dense(test::random_tensor({2, 5}, 2), w), Tensor::full({2, 3}, 1.0));
  }
  CHECK(test::snapshot(set.x) == before);
  CHECK(test::snapshot(set.kernel).amax_history == test::make_set({}).kernel.amax_history());
}

TEST_CASE("ops: gradients flow through a frozen layer to the one below") {
  const QuantizerSet set = test::make_set({});
  for (const bool quantized : {false, true}) {
    CAPTURE(quantized);
    std::vector<Variable> in;
    for (const Tensor& tensor : network_inputs(DType::f32)) in.push_back(parameter(tensor));
    in[5].set_requires_grad(false);
    const QuantizerSet used = quantized ? set.clone() : QuantizerSet{};
    Tape tape;
    tape.backward(network(in, used, used), Tensor::full({kRows, kIn}, 1.0));
    CHECK_FALSE(in[5].grad().defined());
    for (const std::size_t i : {0U, 1U, 2U, 3U, 4U}) {
      CAPTURE(i);
      REQUIRE(in[i].grad().defined());
      CHECK(test::largest_magnitude(test::values_of(in[i].grad())) > 0.0);
    }
  }
}

TEST_CASE("ops: a frozen parameter adds nothing to what backward keeps") {
  const auto bytes = [](bool frozen) {
    std::vector<Variable> in;
    for (const Tensor& tensor : network_inputs(DType::f32)) in.push_back(parameter(tensor));
    for (const std::size_t i : {1U, 2U, 3U, 4U}) in[i].set_requires_grad(!frozen);
    Tape tape;
    (void)network(in, {}, {});
    return tape.saved_for_backward_bytes();
  };
  CHECK(bytes(true) <= bytes(false));
}

TEST_CASE("ops: a NaN in x or dy counts as a pass that is not finite, and moves no scale") {
  const QuantizerSet set = test::make_set({});
  const auto x_before = set.x.scale();
  const Variable w = parameter(test::random_tensor({8, 3}, 1));
  const Tensor x = Tensor::full({2, 8}, std::numeric_limits<double>::quiet_NaN());
  {
    Tape tape;
    tape.backward(dense(x, w, {}, {.quantizer_set = set}), Tensor::full({2, 3}, 1.0));
  }
  CHECK(set.x.non_finite_passes() == 1);
  CHECK(set.x.scale() == x_before);
  CHECK(set.kernel.non_finite_passes() == 0);
  {
    Tape tape;
    tape.backward(dense(Tensor::zeros({2, 8}), w, {}, {.quantizer_set = set}),
                  Tensor::full({2, 3}, std::numeric_limits<double>::infinity()));
  }
  CHECK(set.dgrad.non_finite_passes() == 1);
}

TEST_CASE("ops: check_finite names the library's own op, and its casts leave no trace") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 4});
  const Variable w = parameter(Tensor::full({4, 4}, 1e30));
  const Variable v = parameter(Tensor::full({4, 4}, 1.0));
  Tape tape({.check_finite = true});
  const Variable y = dense(Tensor::full({2, 4}, 1.0), v, {}, {.quantizer_set = set});
  test::check_throws<StateError>("dense",
                                 [&] {
                                   dense(Tensor::full({2, 4}, 1e30), w);
                                 },
                                 {"forward"});
  test::check_throws<StateError>("backward", [&] { tape.backward(y, Tensor::full({2, 4}, 1.0)); });
  CHECK(set.x.amax_history() == std::vector<float>(4));
  CHECK(!v.grad().defined());
}

TEST_CASE("ops: a result of another tape is refused before anything is cast") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 4});
  const Variable w = parameter(test::random_tensor({8, 8}, 1));
  const Tensor x = test::random_tensor({2, 8}, 2);
  const Tape outer;
  const Variable foreign = dense(x, w);
  const Variable foreign_beta = reshape(dense(x.slice(0, 0, 1), w), {8});
  const std::vector<float> history = set.x.amax_history();
  Tape inner;
  test::check_throws<StateError>("dense", [&] { dense(foreign, w, {}, {.quantizer_set = set}); },
                                 {"another"});
  test::check_throws<StateError>("layernorm_dense", [&] {
    layernorm_dense(x, w, parameter(Tensor::full({8}, 1.0)), foreign_beta, {},
                    {.quantizer_set = set});
  });
  const Variable y = dense(Variable{foreign.tensor()}, w);  // taken as a constant
  inner.backward(y, Tensor::full({2, 8}, 1.0));
  CHECK(set.x.amax_history() == history);
}

TEST_CASE("ops: operands on two devices are refused, each by its name") {
  const Device gpu{.type = DeviceType::cuda, .index = 1};
  std::vector<float> memory(64);
  const auto there = [&](const Shape& shape) {
    return Variable(Tensor::wrap(memory.data(), shape, DType::f32, {}, gpu));
  };
  const Variable x = Tensor::zeros({2, 8});
  const Variable kernel = Tensor::zeros({8, 8});
  const Variable gamma = Tensor::zeros({8});
  using test::check_throws;
  check_throws<OptionError>("dense", [&] { dense(x, there({8, 8})); }, {"kernel", "cuda:1"});
  check_throws<OptionError>("dense", [&] { dense(x, kernel, there({8})); }, {"bias", "cpu"});
  check_throws<OptionError>("layernorm_dense", [&] { layernorm_dense(x, kernel, there({8})); },
                            {"gamma"});
  check_throws<OptionError>("layernorm_dense",
                            [&] { layernorm_dense(x, kernel, gamma, there({8})); }, {"beta"});
  check_throws<OptionError>("add", [&] { add(x, there({2, 8})); }, {"b ", "cuda:1"});
  CHECK_THROWS_AS(activation(there({2, 8}), gelu), UnsupportedError);
}

TEST_CASE("tape: one that lives in a backward closure leaves the casts' notes to its own tape") {
  // An op that differentiates in its backward, with a tape of its own.
  const auto twice = [](const Variable& x) {
    return record("twice", {x}, Tensor::from({2.0F * x.tensor().item<float>()}, {1}),
                  NothingSaved{}, [](const NothingSaved&, Gradients& gradients) {
                    const Variable p = parameter(gradients.output().clone());
                    Tape tape;
                    tape.backward(reshape(p, {1, 1}), gradients.output().reshape({1, 1}));
                    Tensor dx = Tensor::from({2.0F * p.grad().item<float>()}, {1});
                    gradients.set(0, std::move(dx));
                  });
  };
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 4});
  const Variable w = parameter(Tensor::from({3.0F}, {1, 1}));
  Tape tape;
  const Variable y = dense(Tensor::from({1.0F}, {1}), w, {}, {.quantizer_set = set});
  tape.backward(twice(y), Tensor::from({4.0F}, {1}));
  CHECK(set.dgrad.amax_history() == std::vector<float>{0, 0, 0, 8});
}

TEST_CASE("tape: a pause records and notes nothing, and a spent tape nothing more") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 4});
  const Variable w = parameter(Tensor::from({3.0F}, {1, 1}));
  const auto run = [&](float x) {
    return dense(Tensor::from({x}, {1}), w, {}, {.quantizer_set = set});
  };
  Tape tape;
  const Variable y = run(1.0F);
  {
    const RecordingPause pause;
    CHECK(Tape::current() == nullptr);
    CHECK(!run(100.0F).requires_grad());
  }
  CHECK(Tape::current() == &tape);
  CHECK(tape.size() == 1);
  tape.backward(y, Tensor::from({1.0F}, {1}));
  CHECK(set.x.amax_history() == std::vector<float>{0, 0, 0, 1});
  CHECK(!run(50.0F).requires_grad());
  CHECK(tape.size() == 1);
  CHECK(tape.saved_for_backward_bytes() == 0);
}

TEST_CASE("ops: what cannot be computed is refused before anything is cast") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 4});
  const Variable w = parameter(test::random_tensor({8, 8}, 1));
  const Variable x = parameter(test::random_tensor({2, 8}, 2));
  Tape tape;
  test::check_throws<OptionError>(
      "dense",
      [&] {
        dense(x, w, {}, {.quantizer_set = {.x = set.dgrad, .kernel = set.dgrad, .dgrad = set.x}});
      },
      {"e5m2"});
  tape.backward(x + x, Tensor::full({2, 8}, 1.0));
  CHECK(set.dgrad.amax_history() == std::vector<float>(4));

  static constexpr CustomActivation kNone{};
  test::check_throws<OptionError>("activation", [&] { activation(x, ActivationPart(&kNone)); },
                                  {"null"});
}

TEST_CASE("ops: without rows no quantizer moves, the kernel's neither") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 4});
  const Variable w = parameter(test::random_tensor({128, 64}, 1));
  const Variable b = parameter(test::random_tensor({64}, 2));
  Tape tape;
  const Variable y = dense(Tensor::zeros({0, 128}), w, b, {.quantizer_set = set});
  tape.backward(y, Tensor::zeros({0, 64}));
  CHECK(y.shape() == Shape{0, 64});
  CHECK(test::largest_magnitude(test::values_of(w.grad())) == 0.0);
  CHECK(test::largest_magnitude(test::values_of(b.grad())) == 0.0);
  for (const Quantizer& quantizer : {set.x, set.kernel, set.dgrad}) {
    CHECK(quantizer.amax_history() == std::vector<float>(4));
    CHECK(quantizer.scale() == Scale{1.0F});
  }
}

}  // namespace
}  // namespace tape8
