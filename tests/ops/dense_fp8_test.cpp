#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/dense.hpp>

#include "support/expect.hpp"
#include "support/matrix.hpp"
#include "support/quantizer_sets.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::DenseReference;
using test::operand;
using test::Ran;
using test::run;
using test::SetCase;
using test::Values;
using test::values_of;

struct Form {
  std::int64_t rows, in, out;
};

void check_case(const SetCase& c, const Form& form, DType dtype, DType kernel_dtype) {
  CAPTURE(c.x);
  CAPTURE(c.kernel);
  CAPTURE(c.dgrad);
  CAPTURE(static_cast<int>(c.format));
  CAPTURE(form.rows);
  CAPTURE(form.in);
  CAPTURE(form.out);
  CAPTURE(to_string(dtype));
  CAPTURE(to_string(kernel_dtype));
  const QuantizerSet set = test::make_set(c);
  const Tensor x = test::random_tensor({form.rows, form.in}, 1, dtype);
  const Tensor kernel = test::random_tensor({form.in, form.out}, 2, kernel_dtype, -0.5, 0.5);
  const Tensor bias = test::random_tensor({form.out}, 3);

  const QuantizerSet before = set.clone();  // the pass advances the set itself
  const Ran ran = run({x, kernel, bias}, [&](const std::vector<Variable>& in) {
    return dense(in[0], in[1], in[2], {.quantizer_set = set});
  });
  const Values dy = values_of(ran.dy);
  const DenseReference reference(
      operand(values_of(x), before.x, dtype), operand(values_of(kernel), before.kernel, dtype),
      values_of(bias), operand(dy, before.dgrad, dtype), dy, form.rows, form.in, form.out);
  CHECK(ran.y.dtype() == dtype);
  check_close(ran.y, reference.y);
  check_close(ran.gradients[0], reference.dx);
  check_close(ran.gradients[1], reference.dkernel);
  // Summed before the cast, so FP8 costs it nothing.
  check_close(ran.gradients[2], reference.dbias);
  CHECK(ran.gradients[1].dtype() == kernel_dtype);

  // Each role's amax is noted, and becomes the newest of the history.
  const auto newest = [](const Quantizer& q) {
    return static_cast<double>(q.amax_history().back());
  };
  if (c.x) CHECK(newest(set.x) == test::largest_magnitude(values_of(x)));
  if (c.kernel) CHECK(newest(set.kernel) == test::largest_magnitude(values_of(kernel)));
  if (c.dgrad) CHECK(newest(set.dgrad) == test::largest_magnitude(dy));
}

TEST_CASE("dense fp8: any roles, both formats, against float64 on the same casts") {
  for (const SetCase& c : test::set_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      check_case(c, {9, 33, 17}, dtype, DType::f32);
      check_case(c, {9, 33, 17}, dtype, DType::bf16);
    }
  }
}

TEST_CASE("dense fp8: sizes that divide by nothing, one row, one column") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Form& form : {Form{1, 256, 767}, Form{8, 767, 10}, Form{1, 1, 1}, Form{3, 5, 1},
                             Form{64, 64, 64}, Form{127, 129, 65}}) {
      check_case({}, form, dtype, DType::f32);
    }
  }
}

TEST_CASE("dense fp8: inputs that only the saturating cast can hold") {
  // Scale 1 and values past 448: what is contracted is 448, in value and in gradient.
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 1});
  const Tensor x = Tensor::from({1000.0F, -2.0F}, {1, 2});
  const Tensor kernel = Tensor::from({1.0F, 0.5F}, {2, 1});
  const Variable w = parameter(kernel);
  Tape tape;
  const Variable y = dense(x, w, {}, {.quantizer_set = set});
  CHECK(y.tensor().item<float>() == 447.0F);
  tape.backward(y);
  CHECK(w.grad().to_vector<float>() == std::vector<float>{448.0F, -2.0F});
  CHECK(set.x.scale() == Scale{0.448F});
}

TEST_CASE("dense fp8: the worked scales of a training loop reach the casts") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 3});
  const Variable w = parameter(Tensor::full({1, 1}, 1.0));
  const std::vector<float> amaxes{4, 2, 1, 1, 1};
  const std::vector<float> scales{1, 112, 112, 112, 224};
  for (std::size_t i = 0; i < amaxes.size(); ++i) {
    CAPTURE(i);
    CHECK(set.x.scale() == Scale{scales[i]});
    // 0.3 x amax is off the grid at each scale, so that a wrong scale shows in the result.
    const Tensor x = Tensor::from({amaxes[i], 0.3F * amaxes[i]}, {2, 1});
    Tape tape;
    const Variable y = dense(x, w, {}, {.quantizer_set = set});
    const Values cast = test::cast_and_decoded(values_of(x), scales[i], DType::e4m3);
    check_close(y.tensor(), cast);
    tape.backward(y, Tensor::full({2, 1}, 1.0));
  }
}

TEST_CASE("dense fp8: batch dimensions and several output dimensions") {
  const QuantizerSet set = test::make_set({});
  const Tensor x = test::random_tensor({2, 3, 20}, 1);
  const Tensor kernel = test::random_tensor({20, 2, 5}, 2);
  const Ran deep = run({x, kernel}, [&](const std::vector<Variable>& in) {
    return dense(in[0], in[1], {}, {.quantizer_set = set.clone()});
  });
  const Ran flat =
      run({x.reshape({6, 20}), kernel.reshape({20, 10})}, [&](const std::vector<Variable>& in) {
        return dense(in[0], in[1], {}, {.quantizer_set = set.clone()});
      });
  CHECK(deep.y.shape() == Shape{2, 3, 2, 5});
  CHECK(test::bytes_of(deep.y) == test::bytes_of(flat.y));
  for (const std::size_t i : {0U, 1U}) {
    CHECK(test::bytes_of(deep.gradients[i]) == test::bytes_of(flat.gradients[i]));
  }
}

TEST_CASE("dense fp8: bf16 ones, dbias 4096 and the amax noted, whatever is needed") {
  for (const bool needs_kernel : {true, false}) {
    CAPTURE(needs_kernel);
    const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 2});
    const Variable x{Tensor::full({4096, 4}, 1.0, DType::bf16)};
    Variable kernel = parameter(Tensor::full({4, 8}, 1.0, DType::bf16));
    kernel.set_requires_grad(needs_kernel);
    const Variable bias = parameter(Tensor::zeros({8}, DType::bf16));
    Tape tape;
    const Variable y = dense(x, kernel, bias, {.quantizer_set = set});
    tape.backward(y, Tensor::full({4096, 8}, 1.0, DType::bf16));
    CHECK(values_of(bias.grad()) == Values(8, 4096.0));
    if (needs_kernel) {
      CHECK(values_of(kernel.grad()) == Values(32, 4096.0));
      CHECK(set.dgrad.amax_history().back() == 1.0F);
    }
  }
}

TEST_CASE("dense fp8: backward keeps x in FP8 where it was quantized") {
  const auto bytes = [](const QuantizerSet& set) {
    const Variable w = parameter(test::random_tensor({64, 32}, 2));
    Tape tape;
    (void)dense(test::random_tensor({128, 64}, 1), w, {}, {.quantizer_set = set});
    return tape.saved_for_backward_bytes();
  };
  CHECK(bytes({}) == 128 * 64 * 4);
  CHECK(bytes(test::make_set({})) == 128 * 64 + 4);
}

}  // namespace
}  // namespace tape8
