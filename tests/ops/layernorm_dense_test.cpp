#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/layernorm_dense.hpp>

#include "support/expect.hpp"
#include "support/float_table.hpp"
#include "support/matrix.hpp"
#include "support/norm_reference.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::check_throws;
using test::DenseReference;
using test::NormCase;
using test::Ran;
using test::Values;
using test::values_of;

struct Case {
  Shape x;
  Shape out;
  NormType norm = NormType::layernorm;
  bool zero_centered = false, beta = true, bias = true;
  DType dtype = DType::f32, parameter_dtype = DType::f32;
  float epsilon = 1e-6F;
};

Ran run_case(const Case& c, const std::vector<Tensor>& inputs) {
  return test::run(inputs, [&](const std::vector<Variable>& in) {
    return layernorm_dense(
        in[0], in[1], in[2], in[3], in[4],
        {.norm_type = c.norm, .zero_centered_gamma = c.zero_centered, .epsilon = c.epsilon});
  });
}

/// x, kernel, gamma, beta, bias.
std::vector<Tensor> make_inputs(const Case& c) {
  const std::int64_t in = c.x[-1];
  return {test::random_tensor(c.x, 1, c.dtype, -2.0, 3.0),
          test::random_tensor(Shape{in}.joined(c.out), 2, c.parameter_dtype),
          test::random_tensor({in}, 3, c.parameter_dtype, c.zero_centered ? -0.5 : 0.5, 1.5),
          c.beta ? test::random_tensor({in}, 4, c.parameter_dtype) : Tensor{},
          c.bias ? test::random_tensor(c.out, 5, c.parameter_dtype) : Tensor{}};
}

Values used_gamma(const Case& c, const Tensor& gamma) {
  Values values = values_of(gamma);
  for (double& value : values) value += c.zero_centered ? 1.0 : 0.0;
  return values;
}

void check_case(const Case& c) {
  CAPTURE(to_string(c.x));
  CAPTURE(to_string(c.out));
  CAPTURE(to_string(c.norm));
  CAPTURE(c.zero_centered);
  CAPTURE(c.beta);
  CAPTURE(c.bias);
  CAPTURE(to_string(c.dtype));
  CAPTURE(to_string(c.parameter_dtype));
  const std::vector<Tensor> in = make_inputs(c);
  const Ran ran = run_case(c, in);
  const NormCase norm{c.norm, static_cast<double>(c.epsilon), c.x.numel(0, c.x.rank() - 1),
                      c.x[-1]};
  const Values x = values_of(in[0]);
  const Values gamma = used_gamma(c, in[2]);
  const Values z = test::norm(norm, x, gamma, c.beta ? values_of(in[3]) : Values{});
  const Values dy = values_of(ran.dy);
  const DenseReference dense(test::rounded(z, c.dtype), test::rounded(values_of(in[1]), c.dtype),
                             c.bias ? values_of(in[4]) : Values{}, dy, dy, norm.rows, norm.cols,
                             c.out.numel());
  const test::NormGradients gradients = test::norm_gradients(norm, x, gamma, dense.dx);

  CHECK(ran.y.shape() == c.x.axes(0, c.x.rank() - 1).joined(c.out));
  CHECK(ran.y.dtype() == c.dtype);
  // In 16 bits the norm's result and the gradient that reaches it are rounded on their way, each to
  // half an ulp; so then is what is computed of them, whatever its own type. Subtracting the means
  // cancels up to the size of what is left, hence the 2.
  const double limit =
      c.dtype == DType::f32 ? test::tolerance(c.parameter_dtype) : 2.0 * test::tolerance(c.dtype);
  check_close(ran.y, dense.y, c.dtype == DType::f32 ? 1e-5 : test::tolerance(c.dtype));
  check_close(ran.gradients[0], gradients.dx, limit);
  check_close(ran.gradients[1], dense.dkernel, limit);
  check_close(ran.gradients[2], gradients.dgamma, limit);
  if (c.beta) check_close(ran.gradients[3], gradients.dbeta, limit);
  if (c.bias) check_close(ran.gradients[4], dense.dbias);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined()) continue;
    CHECK(ran.gradients[i].shape() == in[i].shape());
    CHECK(ran.gradients[i].dtype() == in[i].dtype());
  }
}

TEST_CASE("layernorm_dense: both norms, with and without beta, bias and zero-centred gamma") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const NormType norm : {NormType::layernorm, NormType::rmsnorm}) {
      for (const bool zero_centered : {false, true}) {
        for (const bool bias : {false, true}) {
          for (const bool beta : {false, true}) {
            if (beta && norm == NormType::rmsnorm) continue;
            check_case({{9, 33}, {7}, norm, zero_centered, beta, bias, dtype, dtype});
          }
        }
      }
    }
  }
}

TEST_CASE("layernorm_dense: shapes") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const NormType norm : {NormType::layernorm, NormType::rmsnorm}) {
      const bool beta = norm == NormType::layernorm;
      const auto check = [&](const Shape& x, const Shape& out) {
        check_case({x, out, norm, false, beta, true, dtype, dtype});
      };
      check({1, 256}, {10});
      check({8, 767}, {5});
      check({64}, {3});
      check({2, 3, 4, 20}, {6});
      check({5, 16}, {2, 3, 4});
      check({3, 12}, {1});
      check({130, 64}, {64});
    }
  }
}

TEST_CASE("layernorm_dense: epsilon is added to the variance") {
  for (const float epsilon : {0.0F, 1e-3F, 0.5F}) {
    check_case(
        {{9, 33}, {7}, NormType::layernorm, false, true, true, DType::f32, DType::f32, epsilon});
    check_case(
        {{9, 33}, {7}, NormType::rmsnorm, true, false, true, DType::f32, DType::f32, epsilon});
  }
}

TEST_CASE("layernorm_dense: parameters in another type than x") {
  check_case({{9, 33}, {7}, NormType::layernorm, false, true, true, DType::bf16, DType::f32});
  check_case({{9, 33}, {7}, NormType::layernorm, true, true, true, DType::f32, DType::bf16});
  check_case({{9, 33}, {7}, NormType::rmsnorm, true, false, true, DType::bf16, DType::f32});
}

TEST_CASE("layernorm_dense: gradients equal central differences of a float64 forward") {
  constexpr std::int64_t kRows = 3, kIn = 6, kOut = 4;
  for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
    CAPTURE(to_string(type));
    const Case c{{kRows, kIn}, {kOut}, type, true, type == NormType::layernorm, true};
    const std::vector<Tensor> in = make_inputs(c);
    const Ran ran = run_case(c, in);
    const test::Forward forward = [&](const std::vector<Values>& v) {
      Values gamma = v[2];
      for (double& value : gamma) value += 1.0;
      const Values z =
          test::norm({type, static_cast<double>(c.epsilon), kRows, kIn}, v[0], gamma, v[3]);
      Values y = test::matmul(z, v[1], kRows, kIn, kOut);
      test::add_to_rows(y, v[4]);
      return y;
    };
    std::vector<Values> values;
    for (const Tensor& tensor : in)
      values.push_back(tensor.defined() ? values_of(tensor) : Values{});
    for (std::size_t i = 0; i < in.size(); ++i) {
      CAPTURE(i);
      if (!in[i].defined()) continue;
      check_close(ran.gradients[i],
                  test::difference_gradient(forward, values, i, values_of(ran.dy)));
    }
  }
}

TEST_CASE("layernorm_dense: no rows") {
  const Case c{{0, 128}, {64}};
  const Ran ran = run_case(c, make_inputs(c));
  CHECK(ran.y.shape() == Shape{0, 64});
  CHECK(ran.gradients[0].shape() == Shape{0, 128});
  CHECK(values_of(ran.gradients[1]) == Values(128 * 64, 0.0));
  CHECK(values_of(ran.gradients[2]) == Values(128, 0.0));
  CHECK(values_of(ran.gradients[3]) == Values(128, 0.0));
  CHECK(values_of(ran.gradients[4]) == Values(64, 0.0));
}

TEST_CASE("layernorm_dense: only the gradients that are needed, the same bits as all of them") {
  const Case c{{6, 20}, {7}};
  const std::vector<Tensor> inputs = make_inputs(c);
  const Ran all = run_case(c, inputs);
  for (unsigned needed = 1; needed < 32; ++needed) {
    CAPTURE(needed);
    std::vector<Variable> in;
    for (unsigned i = 0; i < 5; ++i) {
      in.push_back(parameter(inputs[i]));
      in[i].set_requires_grad((needed >> i & 1U) != 0);
    }
    Tape tape;
    tape.backward(layernorm_dense(in[0], in[1], in[2], in[3], in[4]), all.dy);
    for (unsigned i = 0; i < 5; ++i) {
      CAPTURE(i);
      CHECK(in[i].grad().defined() == in[i].requires_grad());
      if (in[i].grad().defined()) {
        CHECK(test::bytes_of(in[i].grad()) == test::bytes_of(all.gradients[i]));
      }
    }
  }
}

TEST_CASE("layernorm_dense: views give what their copies give") {
  const Case c{{20, 9}, {7}};
  const std::vector<Tensor> inputs = make_inputs(c);
  const Tensor wide = test::random_tensor({9, 20}, 6);
  std::vector<Tensor> strided = inputs;
  strided[0] = wide.transpose(0, 1);
  strided[2] = test::random_tensor({9, 2}, 7).slice(1, 1, 2).reshape({9});
  std::vector<Tensor> plain = strided;
  for (Tensor& tensor : plain) tensor = tensor.clone();
  const Ran a = run_case(c, strided);
  const Ran b = run_case(c, plain);
  CHECK(test::bytes_of(a.y) == test::bytes_of(b.y));
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(test::bytes_of(a.gradients[i]) == test::bytes_of(b.gradients[i]));
  }
}

TEST_CASE("layernorm_dense: refusals name op, tensor and dimension") {
  const Tensor x = Tensor::zeros({2, 3});
  const Tensor kernel = Tensor::zeros({3, 4});
  const Tensor row = Tensor::zeros({3});
  const auto call = [](std::vector<Variable> in, const LayerNormDenseOptions& options = {}) {
    in.resize(5);
    return [in, options] { (void)layernorm_dense(in[0], in[1], in[2], in[3], in[4], options); };
  };
  constexpr const char* kOp = "layernorm_dense";
  check_throws<ShapeError>(kOp, call({x, Tensor::zeros({7, 4}), row}),
                           {"kernel.shape[0]", "hidden_in", "x.shape[-1]", "7", "3"});
  check_throws<ShapeError>(kOp, call({x, kernel, Tensor::zeros({4})}), {"gamma", "(3)", "(4)"});
  check_throws<ShapeError>(kOp, call({x, kernel, Tensor::zeros({1, 3})}), {"gamma"});
  check_throws<ShapeError>(kOp, call({x, kernel, row, Tensor::zeros({2})}), {"beta", "(2)"});
  check_throws<ShapeError>(kOp, call({x, kernel, row, row, Tensor::zeros({3})}), {"bias", "(3)"});
  check_throws<ShapeError>(kOp, call({Tensor::zeros({}), kernel, row}), {"x"});
  for (const std::vector<Variable>& missing :
       {std::vector<Variable>{{}, kernel, row}, {x, {}, row}, {x, kernel, {}}}) {
    CHECK_THROWS_AS(call(missing)(), Error);
  }
  for (const DType bad : {DType::i32, DType::e5m2}) {
    CAPTURE(to_string(bad));
    check_throws<DTypeError>(kOp, call({x.to(bad), kernel, row}), {"x", to_string(bad)});
    check_throws<DTypeError>(kOp, call({x, kernel.to(bad), row}), {"kernel", to_string(bad)});
    check_throws<DTypeError>(kOp, call({x, kernel, row.to(bad)}), {"gamma", to_string(bad)});
    check_throws<DTypeError>(kOp, call({x, kernel, row, row.to(bad)}), {"beta", to_string(bad)});
  }
  check_throws<OptionError>(kOp, call({x, kernel, row, row}, {.norm_type = NormType::rmsnorm}),
                            {"beta", "rmsnorm"});
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const float epsilon : {-1e-6F, kNaN, std::numeric_limits<float>::infinity()}) {
    check_throws<OptionError>(kOp, call({x, kernel, row}, {.epsilon = epsilon}), {"epsilon"});
  }
  check_throws<OptionError>(kOp, call({x, kernel, row}, {.layernorm_input_axes = {"a"}}),
                            {"layernorm_input_axes"});
  check_throws<OptionError>(kOp, call({x, kernel, row}, {.dot_input_axes = {"a"}}),
                            {"dot_input_axes"});
  check_throws<OptionError>(kOp, call({x, kernel, row}, {.kernel_axes = {"a"}}), {"kernel_axes"});
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 1});
  check_throws<DTypeError>(kOp, call({x.to(DType::f64), kernel, row}, {.quantizer_set = set}),
                           {"f64"});
}

}  // namespace
}  // namespace tape8
