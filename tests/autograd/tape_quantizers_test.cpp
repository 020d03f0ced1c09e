#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "support/expect.hpp"
#include "support/passes.hpp"

namespace tape8 {
namespace {

using test::snapshot;
using test::sum;

Quantizer fresh(TensorRole role = TensorRole::x) {
  return make_quantizer(DelayedScaling{.amax_history_len = 4}, role);
}

Variable weight() { return parameter(Tensor::full({1}, 1.0)); }

/// x, whose gradient is cast on the way.
Variable cast_in_backward(const Variable& x, const Quantizer& quantizer) {
  return record("casts", {x}, x.tensor().clone(), NothingSaved{},
                [quantizer](const NothingSaved&, Gradients& gradients) {
                  gradients.set(0, quantizer.quantize(gradients.output()).dequantize());
                });
}

TEST_CASE("tape and quantizers: state moves when backward completes, not before") {
  const Quantizer q = fresh();
  const auto before = snapshot(q);
  const Variable w = weight();
  Tape tape;
  (void)q.quantize(Tensor::full({2}, 4.0));
  const Variable loss = sum(w);
  CHECK(snapshot(q) == before);
  tape.backward(loss);
  CHECK(q.scale() == Scale{112.0F});
}

TEST_CASE("tape and quantizers: casts of backward are noted on the same tape") {
  const Quantizer q = fresh(TensorRole::dgrad);
  const Variable w = weight();
  Tape tape;
  const Variable y = cast_in_backward(w, q);
  tape.backward(y, Tensor::full({1}, -8.0));
  CHECK(q.amax_history() == std::vector<float>{0, 0, 0, 8});
  CHECK(q.scale() == Scale{57344.0F / 8.0F});
}

TEST_CASE("tape and quantizers: casts of backward are noted on their own tape, not an inner one") {
  const Quantizer q = fresh(TensorRole::dgrad);
  const Variable w = weight();
  Tape outer;
  const Variable y = cast_in_backward(w, q);
  {
    Tape inner;
    outer.backward(y, Tensor::full({1}, 8.0));
    CHECK(q.amax_history().back() == 8.0F);
    CHECK(Tape::current() == &inner);
    (void)q.quantize(Tensor::full({1}, 2.0));
    inner.backward(sum(w));
  }
  CHECK(q.amax_history() == std::vector<float>{0, 0, 8, 2});
}

TEST_CASE("tape and quantizers: several forwards before a backward are one pass") {
  const Quantizer q = fresh();
  const Variable w = weight();
  Tape tape;
  for (const double amax : {1.0, 16.0, 4.0}) (void)q.quantize(Tensor::full({2}, amax));
  tape.backward(sum(w));
  CHECK(q.amax_history() == std::vector<float>{0, 0, 0, 16});
}

TEST_CASE("tape and quantizers: a retained tape notes each backward's casts once") {
  const Quantizer x = fresh();
  const Quantizer dgrad = fresh(TensorRole::dgrad);
  const Variable w = weight();
  Tape tape;
  (void)x.quantize(Tensor::full({2}, 4.0));
  const Variable y = cast_in_backward(w, dgrad);
  tape.backward(y, Tensor::full({1}, 2.0), {.retain = true});
  tape.backward(y, Tensor::full({1}, 8.0));
  CHECK(x.amax_history() == std::vector<float>{0, 0, 0, 4});
  CHECK(dgrad.amax_history() == std::vector<float>{0, 0, 2, 8});
}

TEST_CASE("tape and quantizers: a tape holds the quantizers it noted") {
  const Variable w = weight();
  Tape tape;
  {
    const Quantizer q = fresh();
    (void)q.quantize(Tensor::full({2}, 4.0));
  }
  CHECK_NOTHROW(tape.backward(sum(w)));
}

TEST_CASE("tape and quantizers: a backward that throws keeps the notes of microbatches before it") {
  const Quantizer q = fresh();
  const Variable w = weight();
  test::pass(q, {8.0F}, {.advance_quantizers = false});
  {
    Tape tape;
    (void)q.quantize(Tensor::full({2}, 1000.0));
    CHECK_THROWS_AS(tape.backward(sum(test::failing(w))), std::runtime_error);
  }
  CHECK(q.amax_history() == std::vector<float>{0, 0, 0, 0});
  test::pass(q, {2.0F});
  CHECK(q.amax_history() == std::vector<float>{0, 0, 0, 8});
}

TEST_CASE("tape and quantizers: only what a pass used advances") {
  const Quantizer used = fresh();
  const Quantizer idle = fresh();
  test::pass(idle, {2.0F}, {.advance_quantizers = false});
  test::pass(used, {4.0F});
  CHECK(used.scale() == Scale{112.0F});
  CHECK(idle.scale() == Scale{1.0F});
}

}  // namespace
}  // namespace tape8
