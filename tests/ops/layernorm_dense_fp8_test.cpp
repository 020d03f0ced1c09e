#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/layernorm_dense.hpp>

#include "support/expect.hpp"
#include "support/matrix.hpp"
#include "support/norm_reference.hpp"
#include "support/quantizer_sets.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::DenseReference;
using test::NormCase;
using test::operand;
using test::Ran;
using test::SetCase;
using test::Values;
using test::values_of;

/// The norm's f32 result, which the cast reads: the op itself times the identity. It is compared
/// with float64 before it is relied on.
Values norm_in_f32(const NormCase& norm, const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  Values identity(static_cast<std::size_t>(norm.cols * norm.cols));
  for (std::int64_t i = 0; i < norm.cols; ++i) {
    identity[static_cast<std::size_t>(i * norm.cols + i)] = 1.0;
  }
  const Tensor kernel = Tensor::from(identity, {norm.cols, norm.cols}, DType::f32);
  const Tensor z =
      layernorm_dense(x.to(DType::f32), kernel, gamma, beta, {}, {.norm_type = norm.type}).tensor();
  check_close(z, test::norm(norm, values_of(x), values_of(gamma),
                            beta.defined() ? values_of(beta) : Values{}));
  return values_of(z);
}

void check_case(const SetCase& c, NormType type, std::int64_t rows, std::int64_t in,
                std::int64_t out, DType dtype) {
  CAPTURE(c.x);
  CAPTURE(c.kernel);
  CAPTURE(c.dgrad);
  CAPTURE(static_cast<int>(c.format));
  CAPTURE(to_string(type));
  CAPTURE(rows);
  CAPTURE(in);
  CAPTURE(out);
  CAPTURE(to_string(dtype));
  const bool has_beta = type == NormType::layernorm;
  const Tensor x = test::random_tensor({rows, in}, 1, dtype, -2.0, 3.0);
  const Tensor kernel = test::random_tensor({in, out}, 2);
  const Tensor gamma = test::random_tensor({in}, 3, DType::f32, 0.5, 1.5);
  const Tensor beta = has_beta ? test::random_tensor({in}, 4) : Tensor{};
  const Tensor bias = test::random_tensor({out}, 5);
  const NormCase norm{type, 1e-6, rows, in};
  const Values z = norm_in_f32(norm, x, gamma, beta);

  const QuantizerSet set = test::make_set(c);
  const QuantizerSet before = set.clone();
  const Ran ran = test::run({x, kernel, gamma, beta, bias}, [&](const std::vector<Variable>& v) {
    return layernorm_dense(v[0], v[1], v[2], v[3], v[4], {.norm_type = type, .quantizer_set = set});
  });
  const Values dy = values_of(ran.dy);
  const DenseReference dense(operand(z, before.x, dtype),
                             operand(values_of(kernel), before.kernel, dtype), values_of(bias),
                             operand(dy, before.dgrad, dtype), dy, rows, in, out);
  const test::NormGradients gradients =
      test::norm_gradients(norm, values_of(x), values_of(gamma), dense.dx);

  check_close(ran.y, dense.y);
  check_close(ran.gradients[1], dense.dkernel, test::tolerance(dtype));
  check_close(ran.gradients[4], dense.dbias);
  // The gradient that reaches the norm is stored in x's type; subtracting the means cancels some.
  const double limit = dtype == DType::f32 ? 1e-5 : 2.0 * test::tolerance(dtype);
  check_close(ran.gradients[0], gradients.dx, limit);
  check_close(ran.gradients[2], gradients.dgamma, limit);
  if (has_beta) check_close(ran.gradients[3], gradients.dbeta, limit);

  const auto newest = [](const Quantizer& q) {
    return static_cast<double>(q.amax_history().back());
  };
  if (c.x) CHECK(newest(set.x) == test::largest_magnitude(z));
  if (c.kernel) CHECK(newest(set.kernel) == test::largest_magnitude(values_of(kernel)));
  if (c.dgrad) CHECK(newest(set.dgrad) == test::largest_magnitude(dy));
}

TEST_CASE("layernorm_dense fp8: any roles, both formats, against float64 on the same casts") {
  for (const SetCase& c : test::set_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      check_case(c, NormType::layernorm, 9, 33, 17, dtype);
    }
    check_case(c, NormType::rmsnorm, 9, 33, 17, DType::f32);
  }
}

TEST_CASE("layernorm_dense fp8: sizes that divide by nothing") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
      check_case({}, type, 1, 256, 10, dtype);
      check_case({}, type, 8, 256, 767, dtype);
      check_case({}, type, 3, 12, 1, dtype);
      check_case({}, type, 65, 64, 64, dtype);
    }
  }
}

TEST_CASE("layernorm_dense fp8: exact where the data allows") {
  // Rows of +-1 normalize to themselves; powers of two are exact in every format: every result is
  // exact.
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 1});
  const Variable x = parameter(Tensor::from({1.0F, -1.0F, 1.0F, -1.0F}, {1, 4}));
  const Variable kernel = parameter(Tensor::from({1.0F, 2.0F, -4.0F, 0.5F}, {4, 1}));
  const Variable gamma = parameter(Tensor::from({2.0F, 1.0F, 0.5F, 4.0F}, {4}));
  const Variable bias = parameter(Tensor::from({0.25F}, {1}));
  Tape tape;
  const Variable y =
      layernorm_dense(x, kernel, gamma, {}, bias, {.epsilon = 0.0F, .quantizer_set = set});
  CHECK(y.tensor().item<float>() == 2.0F - 2.0F - 2.0F - 2.0F + 0.25F);
  tape.backward(y, Tensor::full({1, 1}, 2.0));
  CHECK(kernel.grad().to_vector<float>() == std::vector<float>{4.0F, -2.0F, 1.0F, -8.0F});
  CHECK(gamma.grad().to_vector<float>() == std::vector<float>{2.0F, -4.0F, -8.0F, -1.0F});
  CHECK(bias.grad().item<float>() == 2.0F);
  // g = 2 kernel gamma = 4 4 -4 4: mean 2, mean of g xhat -2.
  CHECK(x.grad().to_vector<float>() == std::vector<float>{4.0F, 0.0F, -4.0F, 0.0F});
  CHECK(set.x.scale() == Scale{112.0F});
  CHECK(set.kernel.scale() == Scale{112.0F});
  CHECK(set.dgrad.scale() == Scale{28672.0F});
}

TEST_CASE("layernorm_dense fp8: backward keeps the norm's result in FP8") {
  const auto bytes = [](const QuantizerSet& set) {
    const Variable w = parameter(test::random_tensor({64, 32}, 2));
    const Variable gamma = parameter(Tensor::full({64}, 1.0));
    Tape tape;
    (void)layernorm_dense(test::random_tensor({128, 64}, 1), w, gamma, {}, {},
                          {.quantizer_set = set});
    return tape.saved_for_backward_bytes();
  };
  constexpr std::int64_t kElements = 128 * 64;
  constexpr std::int64_t kStatistics = 2 * 128 * 4;  // mu and rsigma
  CHECK(bytes({}) == 2 * kElements * 4 + kStatistics);
  CHECK(bytes(test::make_set({})) == kElements * 4 + kElements + 4 + kStatistics);
}

}  // namespace
}  // namespace tape8
