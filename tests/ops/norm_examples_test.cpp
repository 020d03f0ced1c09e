#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/layernorm_dense.hpp>

#include "support/expect.hpp"
#include "support/norm_reference.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::Ran;
using test::Values;
using test::values_of;

/// The n x n identity: times it, a norm comes out as it is.
Tensor identity(std::int64_t n, DType dtype = DType::f32) {
  Values values(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i * n + i)] = 1.0;
  return Tensor::from(values, {n, n}, dtype);
}

Tensor norm_of(const Tensor& x, const Tensor& gamma, const LayerNormDenseOptions& options) {
  return layernorm_dense(x, identity(x.shape()[-1], x.dtype()), gamma, {}, {}, options).tensor();
}

TEST_CASE("norms: rmsnorm with a zero-centred gamma, the worked example") {
  const Variable x = parameter(Tensor::from({1.0F, 2.0F, 3.0F, 4.0F}, {1, 4}));
  const Variable gamma = parameter(Tensor::from({3.0F, 2.0F, 1.0F, 0.0F}, {4}));
  Tape tape;
  const Variable y = layernorm_dense(
      x, identity(4), gamma, {}, {},
      {.norm_type = NormType::rmsnorm, .zero_centered_gamma = true, .epsilon = 0.0F});
  tape.backward(y, Tensor::full({1, 4}, 1.0));
  // To the five digits that the example is given in.
  check_close(y.tensor(), {1.46059, 2.19089, 2.19089, 1.46059}, 5e-6);
  check_close(x.grad(), {1.21716, 0.60858, 0.0, -0.60858}, 5e-6);
  check_close(gamma.grad(), {0.36515, 0.73030, 1.09545, 1.46059}, 5e-6);
}

TEST_CASE("norms: zero-centred gamma of 0 is gamma of 1, in both directions") {
  const Tensor x = test::random_tensor({5, 12}, 1);
  for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
    CAPTURE(to_string(type));
    const auto run = [&](bool zero_centered) {
      const Tensor gamma = Tensor::full({12}, zero_centered ? 0.0 : 1.0);
      return test::run({x, gamma}, [&](const std::vector<Variable>& in) {
        return layernorm_dense(in[0], identity(12), in[1], {}, {},
                               {.norm_type = type, .zero_centered_gamma = zero_centered});
      });
    };
    const Ran centred = run(true);
    const Ran plain = run(false);
    CHECK(test::bytes_of(centred.y) == test::bytes_of(plain.y));
    CHECK(test::bytes_of(centred.gradients[0]) == test::bytes_of(plain.gradients[0]));
    CHECK(test::bytes_of(centred.gradients[1]) == test::bytes_of(plain.gradients[1]));
  }
}

TEST_CASE("norms: the 1 of a zero-centred bf16 gamma is added in f32") {
  // 1 + 2^-10 is not a bf16; adding in bf16 would lose the gamma.
  const Tensor x = test::random_tensor({3, 8}, 2);
  const Tensor gamma = Tensor::full({8}, 0x1p-10, DType::bf16);
  const Tensor y = norm_of(x, gamma, {.zero_centered_gamma = true});
  check_close(
      y, test::norm({NormType::layernorm, 1e-6, 3, 8}, values_of(x), Values(8, 1.0 + 0x1p-10), {}));
}

TEST_CASE("norms: a large mean does not cancel") {
  // Exact sums: the mean is 4096 and the deviation 1, so xhat is the sign; E[x^2] - E[x]^2 would
  // need 25 bits.
  Values x(64);
  Values signs(64);
  for (std::size_t i = 0; i < x.size(); ++i) {
    signs[i] = i % 2 == 0 ? 1.0 : -1.0;
    x[i] = 4096.0 + signs[i];
  }
  const Tensor gamma = Tensor::full({64}, 1.0);
  const Tensor y = norm_of(Tensor::from(x, {1, 64}, DType::f32), gamma, {.epsilon = 0.0F});
  check_close(y, signs, 1e-6);
}

TEST_CASE("norms: a large mean of rough values costs only the rounding of the mean") {
  const Values x = test::random_values(4 * 100, 3, 999.0, 1001.0);
  const Tensor input = Tensor::from(x, {4, 100}, DType::f32);
  const Tensor gamma = Tensor::full({100}, 1.0);
  const Values exact =
      test::norm({NormType::layernorm, 1e-6, 4, 100}, values_of(input), Values(100, 1.0), {});
  // Half an ulp of a mean of 1000, 2^-15, over a deviation of 0.58; and a sum's few ulps more.
  check_close(norm_of(input, gamma, {}), exact, 3e-4);
}

TEST_CASE("norms: a constant row is beta, and its gradient finite") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = Tensor::full({2, 16}, 3.0, dtype);
    const Tensor beta = test::random_tensor({16}, 4, dtype);
    const Ran ran =
        test::run({x, Tensor::full({16}, 1.0, dtype), beta}, [&](const std::vector<Variable>& in) {
          return layernorm_dense(in[0], identity(16, dtype), in[1], in[2]);
        });
    for (const int row : {0, 1}) {
      CHECK(values_of(ran.y.slice(0, row, row + 1)) == values_of(beta));
    }
    for (const double value : values_of(ran.gradients[0])) CHECK(std::isfinite(value));
  }
}

TEST_CASE("norms: epsilon keeps a row of zeros finite") {
  for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
    const Tensor y = norm_of(Tensor::zeros({2, 8}), Tensor::full({8}, 1.0), {.norm_type = type});
    CHECK(values_of(y) == Values(16, 0.0));
  }
}

TEST_CASE("norms: one column") {
  const Tensor x = Tensor::from({3.0F, -5.0F}, {2, 1});
  const Tensor gamma = Tensor::full({1}, 2.0);
  CHECK(values_of(norm_of(x, gamma, {})) == Values{0.0, 0.0});
  check_close(norm_of(x, gamma, {.norm_type = NormType::rmsnorm, .epsilon = 0.0F}), {2.0, -2.0});
}

}  // namespace
}  // namespace tape8
