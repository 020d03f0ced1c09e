#include <algorithm>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/dense.hpp>

#include "support/expect.hpp"
#include "support/float_table.hpp"
#include "support/matrix.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::check_throws;
using test::DenseReference;
using test::Ran;
using test::run;
using test::Values;
using test::values_of;

Ran run_dense(const Tensor& x, const Tensor& kernel, const Tensor& bias,
              const DenseOptions& options = {}) {
  return run({x, kernel, bias},
             [&](const std::vector<Variable>& in) { return dense(in[0], in[1], in[2], options); });
}

struct Case {
  Shape x, kernel;
  int contracted = 1;
  DType dtype = DType::f32, kernel_dtype = DType::f32, bias_dtype = DType::f32;
  bool bias = true;
};

/// Runs a case and compares result and gradients with float64 on the operands as they are used.
void check_case(const Case& c) {
  CAPTURE(to_string(c.x));
  CAPTURE(to_string(c.kernel));
  CAPTURE(to_string(c.dtype));
  CAPTURE(to_string(c.kernel_dtype));
  CAPTURE(to_string(c.bias_dtype));
  CAPTURE(c.bias);
  const Shape batch = c.x.axes(0, c.x.rank() - c.contracted);
  const Shape out = c.kernel.axes(c.contracted, c.kernel.rank());
  const std::int64_t in = c.kernel.numel(0, c.contracted);
  const Tensor x = test::random_tensor(c.x, 1, c.dtype);
  const Tensor kernel = test::random_tensor(c.kernel, 2, c.kernel_dtype);
  const Tensor bias = c.bias ? test::random_tensor(out, 3, c.bias_dtype) : Tensor{};

  DenseOptions options;
  options.contracting_dims = {{}, {}};
  for (int i = 0; i < c.contracted; ++i) {
    options.contracting_dims.x.push_back(i - c.contracted);
    options.contracting_dims.kernel.push_back(i);
  }
  const Ran ran = run_dense(x, kernel, bias, options);
  const Values dy = values_of(ran.dy);
  const DenseReference reference(values_of(x), test::rounded(values_of(kernel), c.dtype),
                                 c.bias ? values_of(bias) : Values{}, dy, dy, batch.numel(), in,
                                 out.numel());
  // What is summed in f32 is no better for being kept in f64.
  const double limit =
      c.dtype == DType::f64 ? test::tolerance(DType::f64) : test::tolerance(DType::f32);
  CHECK(ran.y.shape() == batch.joined(out));
  CHECK(ran.y.dtype() == c.dtype);
  check_close(ran.y, reference.y);
  CHECK(ran.gradients[0].shape() == c.x);
  CHECK(ran.gradients[0].dtype() == c.dtype);
  check_close(ran.gradients[0], reference.dx);
  CHECK(ran.gradients[1].shape() == c.kernel);
  CHECK(ran.gradients[1].dtype() == c.kernel_dtype);
  check_close(ran.gradients[1], reference.dkernel,
              std::max(limit, test::tolerance(c.kernel_dtype)));
  if (c.bias) {
    CHECK(ran.gradients[2].shape() == out);
    CHECK(ran.gradients[2].dtype() == c.bias_dtype);
    check_close(ran.gradients[2], reference.dbias, std::max(limit, test::tolerance(c.bias_dtype)));
  }
}

TEST_CASE("dense: shapes, with and without bias, against float64") {
  const std::vector<Case> shapes{
      {{1, 1}, {1, 1}},
      {{1, 256}, {256, 10}},
      {{8, 256}, {256, 767}},
      {{8, 767}, {767, 10}},
      {{5, 3}, {3, 1}},
      {{33, 17}, {17, 65}},
      {{64, 64}, {64, 64}},
      {{7}, {7, 5}},
      {{2, 3, 5, 7}, {7, 4}},
      {{4, 6}, {6, 2, 3, 4}},
      {{9}, {9}},
      {{2, 5}, {5}},
      {{3, 4, 5}, {4, 5, 6}, 2},
      {{3, 4, 5}, {4, 5, 2, 3}, 2},
  };
  for (Case c : shapes) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const bool bias : {true, false}) {
        c.dtype = c.kernel_dtype = c.bias_dtype = dtype;
        c.bias = bias;
        check_case(c);
      }
    }
  }
}

TEST_CASE("dense: sizes of zero give zeros, not garbage") {
  const Ran rows = run_dense(Tensor::zeros({0, 128}), test::random_tensor({128, 64}, 1),
                             test::random_tensor({64}, 2));
  CHECK(rows.y.shape() == Shape{0, 64});
  CHECK(rows.gradients[0].shape() == Shape{0, 128});
  CHECK(values_of(rows.gradients[1]) == Values(128 * 64, 0.0));
  CHECK(values_of(rows.gradients[2]) == Values(64, 0.0));

  const Tensor bias = test::random_tensor({5}, 3);
  const Ran inner = run_dense(Tensor::zeros({4, 0}), Tensor::zeros({0, 5}), bias);
  for (int row = 0; row < 4; ++row) {
    CHECK(values_of(inner.y.slice(0, row, row + 1)) == values_of(bias));
  }
  const Ran outer = run_dense(test::random_tensor({4, 3}, 4), Tensor::zeros({3, 0}), Tensor{});
  CHECK(outer.y.shape() == Shape{4, 0});
  CHECK(values_of(outer.gradients[0]) == Values(12, 0.0));
}

TEST_CASE("dense: element types of kernel and bias are free") {
  for (const DType kernel : {DType::f32, DType::bf16}) {
    for (const DType bias : {DType::f32, DType::bf16}) {
      for (const DType x : {DType::f32, DType::bf16}) {
        check_case({{6, 40}, {40, 9}, 1, x, kernel, bias, true});
      }
    }
  }
}

TEST_CASE("dense: 16-bit floats and f64 throughout") {
  check_case({{6, 40}, {40, 9}, 1, DType::f64, DType::f64, DType::f64, true});
  check_case({{6, 40}, {40, 9}, 1, DType::f16, DType::f16, DType::f16, true});
  check_case({{6, 40}, {40, 9}, 1, DType::f64, DType::f32, DType::f32, true});
  check_case({{6, 40}, {40, 9}, 1, DType::f32, DType::f64, DType::f64, true});
}

TEST_CASE("dense: gradients equal central differences of a float64 forward") {
  constexpr std::int64_t kRows = 3, kIn = 5, kOut = 4;
  const Tensor x = test::random_tensor({kRows, kIn}, 1);
  const Tensor kernel = test::random_tensor({kIn, kOut}, 2);
  const Tensor bias = test::random_tensor({kOut}, 3);
  const Ran ran = run_dense(x, kernel, bias);
  const test::Forward forward = [](const std::vector<Values>& in) {
    Values y = test::matmul(in[0], in[1], kRows, kIn, kOut);
    test::add_to_rows(y, in[2]);
    return y;
  };
  const std::vector<Values> inputs{values_of(x), values_of(kernel), values_of(bias)};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    check_close(ran.gradients[i], test::difference_gradient(forward, inputs, i, values_of(ran.dy)));
  }
}

TEST_CASE("dense: with a kernel of zeros each row is the bias, whatever its type") {
  for (const DType x : {DType::f32, DType::bf16}) {
    for (const DType bias_dtype : {DType::f32, DType::bf16, DType::f16}) {
      CAPTURE(to_string(x));
      CAPTURE(to_string(bias_dtype));
      const Tensor bias = test::random_tensor({13}, 3, bias_dtype);
      const Tensor y =
          dense(test::random_tensor({6, 8}, 1, x), Tensor::zeros({8, 13}), bias).tensor();
      for (int row = 0; row < 6; ++row) {
        CHECK(values_of(y.slice(0, row, row + 1)) == test::rounded(values_of(bias), x));
      }
    }
  }
}

TEST_CASE("dense: the bias gradient of bf16 ones does not get stuck at 256") {
  const Variable x{Tensor::zeros({4096, 4}, DType::bf16)};
  const Variable kernel{Tensor::zeros({4, 8}, DType::bf16)};
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Variable bias = parameter(Tensor::zeros({8}, dtype));
    Tape tape;
    const Variable y = dense(x, kernel, bias);
    tape.backward(y, Tensor::full({4096, 8}, 1.0, DType::bf16));
    CHECK(values_of(bias.grad()) == Values(8, 4096.0));
  }
}

TEST_CASE("dense: a non-gated result of (2, 64) has a bias gradient of 64") {
  const Ran ran = run_dense(test::random_tensor({2, 16}, 1), test::random_tensor({16, 64}, 2),
                            test::random_tensor({64}, 3));
  CHECK(ran.gradients[2].shape() == Shape{64});
  check_close(ran.gradients[2], test::column_sums(values_of(ran.dy), 2, 64));
}

TEST_CASE("dense: views give what their copies give") {
  const Tensor x = test::random_tensor({12, 20}, 1);
  const Tensor kernel = test::random_tensor({9, 12}, 2);
  const Tensor bias = test::random_tensor({9, 2}, 3);
  const auto bias_view = bias.slice(1, 1, 2).reshape({9});
  const Ran strided = run_dense(x.transpose(0, 1), kernel.transpose(0, 1), bias_view);
  const Ran plain =
      run_dense(x.transpose(0, 1).clone(), kernel.transpose(0, 1).clone(), bias_view.clone());
  CHECK(test::bytes_of(strided.y) == test::bytes_of(plain.y));
  for (const std::size_t i : {0U, 1U, 2U}) {
    CHECK(test::bytes_of(strided.gradients[i]) == test::bytes_of(plain.gradients[i]));
  }
  // A cotangent that is a view.
  const Variable w = parameter(kernel.transpose(0, 1).clone());
  const Tensor dy = test::random_tensor({9, 20}, 4);
  const auto gradient = [&](const Tensor& cotangent) {
    Variable again = w;
    again.zero_grad();
    Tape tape;
    tape.backward(dense(x.transpose(0, 1), w), cotangent);
    return test::bytes_of(w.grad());
  };
  CHECK(gradient(dy.transpose(0, 1)) == gradient(dy.transpose(0, 1).clone()));
}

TEST_CASE("dense: only the gradients that are needed, the same bits as all of them") {
  const Tensor x = test::random_tensor({6, 10}, 1);
  const Tensor kernel = test::random_tensor({10, 7}, 2);
  const Tensor bias = test::random_tensor({7}, 3);
  const Ran all = run_dense(x, kernel, bias);
  for (unsigned needed = 1; needed < 8; ++needed) {
    CAPTURE(needed);
    std::vector<Variable> in{parameter(x), parameter(kernel), parameter(bias)};
    for (unsigned i = 0; i < 3; ++i) in[i].set_requires_grad((needed >> i & 1U) != 0);
    Tape tape;
    tape.backward(dense(in[0], in[1], in[2]), all.dy);
    for (unsigned i = 0; i < 3; ++i) {
      CAPTURE(i);
      CHECK(in[i].grad().defined() == in[i].requires_grad());
      if (in[i].grad().defined()) {
        CHECK(test::bytes_of(in[i].grad()) == test::bytes_of(all.gradients[i]));
      }
    }
  }
}

TEST_CASE("dense: options that only name things move no data") {
  const Tensor x = test::random_tensor({3, 4, 5}, 1);
  const Tensor kernel = test::random_tensor({5, 6}, 2);
  const Tensor plain = dense(x, kernel).tensor();
  const Tensor named = dense(x, kernel, {},
                             {.transpose_batch_sequence = true,
                              .input_axes = {"batch", "", "hidden"},
                              .kernel_axes = {"hidden", "mlp"},
                              .output_axes = {"batch", "", "mlp"}})
                           .tensor();
  CHECK(test::bytes_of(named) == test::bytes_of(plain));
}

TEST_CASE("dense: refusals name op, tensor and dimension") {
  const Tensor x = Tensor::zeros({2, 3});
  const Tensor kernel = Tensor::zeros({3, 4});
  const auto call = [](const Variable& a, const Variable& b, const Variable& c = {},
                       const DenseOptions& options = {}) {
    return [=] { (void)dense(a, b, c, options); };
  };
  check_throws<ShapeError>("dense", call(x, Tensor::zeros({7, 4})),
                           {"kernel.shape[0]", "hidden_in", "x.shape[-1]", "7", "3"});
  check_throws<ShapeError>("dense", call(x, kernel, Tensor::zeros({5})), {"bias", "(4)", "(5)"});
  check_throws<ShapeError>("dense", call(x, kernel, Tensor::zeros({1, 4})), {"bias"});
  check_throws<ShapeError>("dense", call(Tensor::zeros({}), kernel), {"x"});
  check_throws<ShapeError>("dense", call(x, Tensor::zeros({})), {"kernel"});
  CHECK_THROWS_AS(call({}, kernel)(), Error);
  CHECK_THROWS_AS(call(x, {})(), Error);
  for (const DType bad : {DType::i32, DType::e4m3, DType::boolean}) {
    CAPTURE(to_string(bad));
    check_throws<DTypeError>("dense", call(x.to(bad), kernel), {"x", to_string(bad)});
    check_throws<DTypeError>("dense", call(x, kernel.to(bad)), {"kernel", to_string(bad)});
    check_throws<DTypeError>("dense", call(x, kernel, Tensor::zeros({4}, bad)),
                             {"bias", to_string(bad)});
  }
  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 1});
  check_throws<DTypeError>("dense", call(x.to(DType::f64), kernel, {}, {.quantizer_set = set}),
                           {"f64"});
  check_throws<OptionError>("dense", call(x, kernel, {}, {.input_axes = {"a"}}), {"input_axes"});
  check_throws<OptionError>("dense", call(x, kernel, {}, {.kernel_axes = {"a", "b", "c"}}),
                            {"kernel_axes"});
  check_throws<OptionError>("dense", call(x, kernel, {}, {.output_axes = {"a"}}), {"output_axes"});
  for (const ContractingDims& dims :
       {ContractingDims{{0}, {0}}, ContractingDims{{-1}, {1}}, ContractingDims{{}, {}},
        ContractingDims{{-1}, {0, 1}}, ContractingDims{{5}, {0}},
        ContractingDims{{-1, -2}, {0, 1}}}) {
    check_throws<OptionError>("dense", call(x, kernel, {}, {.contracting_dims = dims}),
                              {"contracting_dims"});
  }
}

}  // namespace
}  // namespace tape8
