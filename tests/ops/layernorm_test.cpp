#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/nn/layernorm.hpp>
#include <tape8/ops/layernorm.hpp>

#include "support/check_op.hpp"
#include "support/float_table.hpp"
#include "support/norm_reference.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::check_throws;
using test::kComputeTypes;
using test::NormCase;
using test::Ran;
using test::Values;
using test::values_of;

constexpr const char* kOp = "layernorm";

struct Case {
  Shape x;
  NormType norm = NormType::layernorm;
  bool zero_centered = false, beta = true;
  DType dtype = DType::f32, parameter_dtype = DType::f32;
};

test::Op op_of(const Case& c, const Quantizer& quantizer = {}) {
  return [=](const std::vector<Variable>& in) {
    return layernorm(
        in[0], in[1], in[2],
        {.norm_type = c.norm, .zero_centered_gamma = c.zero_centered, .quantizer = quantizer});
  };
}

/// x, gamma, beta.
std::vector<Tensor> make_inputs(const Case& c) {
  const Shape row{c.x[-1]};
  return {test::random_tensor(c.x, 1, c.dtype, -2.0, 3.0),
          test::random_tensor(row, 2, c.parameter_dtype, c.zero_centered ? -0.5 : 0.5, 1.5),
          c.beta ? test::random_tensor(row, 3, c.parameter_dtype) : Tensor{}};
}

Values used_gamma(const Case& c, Values gamma) {
  for (double& value : gamma) value += c.zero_centered ? 1.0 : 0.0;
  return gamma;
}

NormCase norm_case(const Case& c) {
  return {c.norm, static_cast<double>(1e-6F), c.x.numel(0, c.x.rank() - 1), c.x[-1]};
}

void check_case(const Case& c) {
  CAPTURE(to_string(c.x));
  CAPTURE(to_string(c.norm));
  CAPTURE(c.zero_centered);
  CAPTURE(c.beta);
  CAPTURE(to_string(c.dtype));
  CAPTURE(to_string(c.parameter_dtype));
  const std::vector<Tensor> in = make_inputs(c);
  const Ran ran = test::run(in, op_of(c));
  const Values x = values_of(in[0]);
  const Values gamma = used_gamma(c, values_of(in[1]));
  CHECK(ran.y.shape() == c.x);
  CHECK(ran.y.dtype() == c.dtype);
  check_close(ran.y, test::norm(norm_case(c), x, gamma, c.beta ? values_of(in[2]) : Values{}));
  const test::NormGradients reference =
      test::norm_gradients(norm_case(c), x, gamma, values_of(ran.dy));
  check_close(ran.gradients[0], reference.dx);
  // Sums over the rows are in f32 beside every x but one in f64.
  const double sums = std::max(test::tolerance(c.parameter_dtype),
                               test::tolerance(c.dtype == DType::f64 ? DType::f64 : DType::f32));
  check_close(ran.gradients[1], reference.dgamma, sums);
  if (c.beta) check_close(ran.gradients[2], reference.dbeta, sums);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined()) continue;
    CHECK(ran.gradients[i].shape() == in[i].shape());
    CHECK(ran.gradients[i].dtype() == in[i].dtype());
  }
}

/// Both norms, each with what it allows.
template <class Check>
void for_each_norm(const Check& check) {
  for (const bool zero_centered : {false, true}) {
    check(NormType::layernorm, zero_centered, true);
    check(NormType::layernorm, zero_centered, false);
    check(NormType::rmsnorm, zero_centered, false);
  }
}

TEST_CASE("layernorm: values and gradients against float64") {
  for (const DType dtype : kComputeTypes) {
    for_each_norm([&](NormType norm, bool zero_centered, bool beta) {
      for (const Shape& x : {Shape{33}, Shape{1, 767}, Shape{9, 64}, Shape{2, 3, 5, 20}}) {
        check_case({x, norm, zero_centered, beta, dtype, dtype});
      }
    });
  }
}

TEST_CASE("layernorm: parameters in another type than x") {
  for (const DType dtype : kComputeTypes) {
    for (const DType parameters : kComputeTypes) {
      check_case({{9, 33}, NormType::layernorm, true, true, dtype, parameters});
      check_case({{9, 33}, NormType::rmsnorm, false, false, dtype, parameters});
    }
  }
}

TEST_CASE("layernorm: gradients equal central differences") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    for_each_norm([&](NormType norm, bool zero_centered, bool beta) {
      const Case c{{3, 6}, norm, zero_centered, beta, dtype, dtype};
      const test::Forward forward = [&c](const std::vector<Values>& in) {
        return test::norm(norm_case(c), in[0], used_gamma(c, in[1]), in[2]);
      };
      test::check_op(make_inputs(c), op_of(c), forward);
    });
  }
}

TEST_CASE("layernorm: no rows, and a hidden size of 1") {
  for (const DType dtype : kComputeTypes) {
    const Case c{{0, 16}, NormType::layernorm, false, true, dtype, dtype};
    const Ran ran = test::run(make_inputs(c), op_of(c));
    CHECK(ran.y.shape() == Shape{0, 16});
    CHECK(ran.gradients[0].shape() == Shape{0, 16});
    CHECK(values_of(ran.gradients[1]) == Values(16, 0.0));
    CHECK(values_of(ran.gradients[2]) == Values(16, 0.0));
    // One value minus its mean is 0: y is beta.
    const Case single{{4, 1}, NormType::layernorm, false, true, dtype, dtype};
    const std::vector<Tensor> in = make_inputs(single);
    const Ran one = test::run(in, op_of(single));
    CHECK(values_of(one.y) == Values(4, values_of(in[2])[0]));
    CHECK(values_of(one.gradients[0]) == Values(4, 0.0));
  }
}

TEST_CASE("layernorm: views, and what is kept") {
  for (const DType dtype : kComputeTypes) {
    const Case c{{6, 20}, NormType::layernorm, false, true, dtype, dtype};
    test::check_views(make_inputs(c), op_of(c));
  }
  const Case layer{{8, 32}};
  // x, mu and rsigma; gamma is made a result by the count itself and is borrowed.
  CHECK(test::bytes_kept(make_inputs(layer), op_of(layer)) == 8 * 32 * 4 + 2 * 8 * 4);
}

TEST_CASE("layernorm: delayed scaling casts the f32 result as it is computed") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(to_string(dtype));
    Quantizer q = make_quantizer(DelayedScaling{.amax_history_len = 2}, TensorRole::x);
    q.set_state(Scale{37.0F}, std::vector<float>{0.0F, 1.0F});
    const Case c{{9, 33}, NormType::layernorm, false, true, dtype, DType::f32};
    const std::vector<Tensor> in = make_inputs(c);
    const Values exact =
        values_of(layernorm(in[0].to(DType::f32), in[1], in[2]).tensor());  // the same kernel's
    const Ran ran = test::run(in, op_of(c, q));
    const Values cast = test::cast_and_decoded(exact, 37.0F, DType::e4m3);
    CHECK(ran.y.dtype() == dtype);
    CHECK(values_of(ran.y) == test::rounded(test::rounded(cast, DType::f32), dtype));
    CHECK(q.amax_history()[1] == static_cast<float>(test::largest_magnitude(exact)));
    // The gradient passes the cast unchanged.
    const Ran plain = test::run(in, op_of(c));
    for (std::size_t i = 0; i < in.size(); ++i) {
      CHECK(test::bytes_of(ran.gradients[i]) == test::bytes_of(plain.gradients[i]));
    }
  }
}

TEST_CASE("layernorm: current scaling rounds the result to x's type first") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool power_of_2 : {false, true}) {
      CAPTURE(to_string(dtype));
      const Quantizer q =
          make_quantizer(CurrentScaling{.power_of_2_scale = power_of_2}, TensorRole::x);
      const Case c{{9, 33}, NormType::rmsnorm, true, false, dtype, DType::f32};
      const std::vector<Tensor> in = make_inputs(c);
      const Values rounded = values_of(op_of(c)({in[0], in[1], {}}).tensor());
      float scale = 448.0F / static_cast<float>(test::largest_magnitude(rounded));
      if (power_of_2) scale = std::exp2(std::floor(std::log2(scale)));
      const Values cast = test::cast_and_decoded(rounded, scale, DType::e4m3);
      const Ran ran = test::run(in, op_of(c, q));
      CHECK(values_of(ran.y) == test::rounded(test::rounded(cast, DType::f32), dtype));
    }
  }
}

TEST_CASE("layernorm: refusals name op, tensor and dimension") {
  const Tensor x = Tensor::zeros({2, 3});
  const Tensor row = Tensor::zeros({3});
  const auto call = [](std::vector<Variable> in, const LayerNormOptions& options = {}) {
    in.resize(3);
    return [in, options] { (void)layernorm(in[0], in[1], in[2], options); };
  };
  check_throws<ShapeError>(kOp, call({x, Tensor::zeros({4})}), {"gamma", "(3)", "(4)"});
  check_throws<ShapeError>(kOp, call({x, row, Tensor::zeros({1, 3})}), {"beta", "(1, 3)"});
  check_throws<ShapeError>(kOp, call({Tensor::zeros({}), row}), {"x"});
  check_throws<OptionError>(kOp, call({{}, row}), {"x", "none"});
  check_throws<OptionError>(kOp, call({x, {}}), {"gamma", "none"});
  check_throws<OptionError>(kOp, call({x, row, row}, {.norm_type = NormType::rmsnorm}),
                            {"beta", "rmsnorm"});
  for (const float bad : {-1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    check_throws<OptionError>(kOp, call({x, row}, {.epsilon = bad}), {"epsilon"});
  }
  check_throws<DTypeError>(kOp, call({x.to(DType::i32), row}), {"x", "i32"});
  check_throws<DTypeError>(kOp, call({x, row.to(DType::e4m3)}), {"gamma", "e4m3"});
  check_throws<DTypeError>(kOp, call({x, row, row.to(DType::u8)}), {"beta", "u8"});
  const Quantizer q = make_quantizer(CurrentScaling{}, TensorRole::x);
  check_throws<DTypeError>(kOp, call({x.to(DType::f64), row}, {.quantizer = q}), {"f64"});
}

TEST_CASE("LayerNorm: starts as the plain norm, its parameters are those the norm has") {
  for (const DType dtype : kComputeTypes) {
    for_each_norm([&](NormType norm, bool zero_centered, bool) {
      const LayerNorm module({.features = 12,
                              .norm_type = norm,
                              .zero_centered_gamma = zero_centered,
                              .epsilon = 0.25F,
                              .dtype = dtype});
      const bool has_beta = norm == NormType::layernorm;
      CHECK(module.parameters().size() == (has_beta ? 2U : 1U));
      CHECK(module.beta().defined() == has_beta);
      CHECK(module.gamma().dtype() == dtype);
      CHECK(module.gamma().name() == "gamma");
      CHECK(values_of(module.gamma().tensor()) == Values(12, zero_centered ? 0.0 : 1.0));
      if (has_beta) {
        CHECK(module.beta().name() == "beta");
        CHECK(values_of(module.beta().tensor()) == Values(12, 0.0));
      }
      const Tensor x = test::random_tensor({5, 12}, 4, DType::f32);
      check_close(module(x).tensor(),
                  test::norm({norm, 0.25, 5, 12}, values_of(x), Values(12, 1.0), {}));
      Tape tape;
      const Variable y = module(x);
      tape.backward(y, test::random_tensor(y.shape(), 5));
      for (const Variable& p : module.parameters()) CHECK(p.grad().dtype() == dtype);
    });
  }
  for (const std::int64_t bad : {0, -1}) {
    check_throws<OptionError>(kOp, [&] { (void)LayerNorm({.features = bad}); }, {"features"});
  }
}

}  // namespace
}  // namespace tape8
