#include <functional>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/arithmetic.hpp>

#include "support/check_op.hpp"
#include "support/float_table.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::kComputeTypes;
using test::Op;
using test::Ran;
using test::Values;
using test::values_of;

const Op kSub = [](const std::vector<Variable>& in) { return in[0] - in[1]; };
const Op kMul = [](const std::vector<Variable>& in) { return in[0] * in[1]; };

Op scale_by(double factor) {
  return [factor](const std::vector<Variable>& in) { return scale(in[0], factor); };
}

Values each(const Values& a, const Values& b, const std::function<double(double, double)>& f) {
  Values result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = f(a[i], b[i]);
  return result;
}

double product(double a, double b) { return a * b; }

/// Calls check(a, b) with operands of every shape and type.
void for_each_pair(const std::function<void(const Tensor&, const Tensor&)>& check) {
  for (const DType dtype : kComputeTypes) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{767}, Shape{3, 5, 7}, Shape{0, 4}}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(shape));
      check(test::random_tensor(shape, 1, dtype), test::random_tensor(shape, 2, dtype));
    }
  }
}

TEST_CASE("sub: differences are rounded once, the gradients are dy and -dy") {
  for_each_pair([](const Tensor& a, const Tensor& b) {
    const Ran ran = test::run({a, b}, kSub);
    const Values difference = each(values_of(a), values_of(b), std::minus<>{});
    CHECK(ran.y.dtype() == a.dtype());
    CHECK(ran.y.shape() == a.shape());
    CHECK(values_of(ran.y) == test::rounded(difference, a.dtype()));
    CHECK(values_of(ran.gradients[0]) == values_of(ran.dy));
    CHECK(values_of(ran.gradients[1]) ==
          each(values_of(ran.dy), values_of(ran.dy), [](double dy, double) { return -dy; }));
  });
}

TEST_CASE("mul: products are rounded once, each gradient is dy times the other operand") {
  for_each_pair([](const Tensor& a, const Tensor& b) {
    const Ran ran = test::run({a, b}, kMul);
    const Values dy = values_of(ran.dy);
    CHECK(ran.y.dtype() == a.dtype());
    CHECK(values_of(ran.y) == test::rounded(each(values_of(a), values_of(b), product), a.dtype()));
    CHECK(values_of(ran.gradients[0]) == test::rounded(each(dy, values_of(b), product), a.dtype()));
    CHECK(values_of(ran.gradients[1]) == test::rounded(each(dy, values_of(a), product), a.dtype()));
  });
}

TEST_CASE("scale: values and gradient times the factor") {
  for (const double factor : {0.0, 1.0, -2.5, 0x1p-20}) {
    CAPTURE(factor);
    for_each_pair([factor](const Tensor& x, const Tensor&) {
      const Ran ran = test::run({x}, scale_by(factor));
      const auto times = [factor](double v, double) { return factor * v; };
      const Values dy = values_of(ran.dy);
      CHECK(ran.y.dtype() == x.dtype());
      CHECK(values_of(ran.y) == test::rounded(each(values_of(x), values_of(x), times), x.dtype()));
      CHECK(values_of(ran.gradients[0]) == test::rounded(each(dy, dy, times), x.dtype()));
    });
  }
  // In f64 the factor is not cut down to f32.
  const Tensor x = test::random_tensor({9}, 1, DType::f64);
  const Values third = values_of(scale(x, 1.0 / 3.0).tensor());
  CHECK(third == each(values_of(x), third, [](double v, double) { return v * (1.0 / 3.0); }));
}

TEST_CASE("arithmetic: operators are the functions, and a variable may meet itself") {
  const Tensor a = test::random_tensor({5}, 3);
  const Tensor b = test::random_tensor({5}, 4);
  CHECK(test::bytes_of((Variable{a} - b).tensor()) == test::bytes_of(sub(a, b).tensor()));
  CHECK(test::bytes_of((Variable{a} * b).tensor()) == test::bytes_of(mul(a, b).tensor()));
  CHECK(test::bytes_of((Variable{a} * 3.0).tensor()) == test::bytes_of(scale(a, 3.0).tensor()));
  CHECK(test::bytes_of((3.0 * Variable{a}).tensor()) == test::bytes_of(scale(a, 3.0).tensor()));
  const Variable x = parameter(Tensor::from({3.0F, -2.0F}, {2}));
  Tape tape;
  tape.backward(x * x - x, Tensor::from({1.0F, 10.0F}, {2}));
  CHECK(values_of(x.grad()) == Values{5.0, -50.0});
}

TEST_CASE("arithmetic: only mul keeps its operands") {
  const std::vector<Tensor> pair{test::random_tensor({64}, 1), test::random_tensor({64}, 2)};
  const Op add_both = [](const std::vector<Variable>& in) { return in[0] + in[1]; };
  CHECK(test::bytes_kept(pair, add_both) == 0);
  CHECK(test::bytes_kept(pair, kSub) == 0);
  CHECK(test::bytes_kept({pair[0]}, scale_by(2.0)) == 0);
  CHECK(test::bytes_kept(pair, kMul) == 2 * 64 * 4);
}

TEST_CASE("arithmetic: views as operands and as cotangent") {
  for (const DType dtype : kComputeTypes) {
    const std::vector<Tensor> pair{test::random_tensor({6, 5}, 5, dtype),
                                   test::random_tensor({6, 5}, 6, dtype)};
    test::check_views(pair, [](const std::vector<Variable>& in) { return in[0] + in[1]; });
    test::check_views(pair, kSub);
    test::check_views(pair, kMul);
    test::check_views({pair[0]}, scale_by(-1.5));
  }
}

TEST_CASE("arithmetic: refusals name op, operand and what was got") {
  const Tensor a = Tensor::zeros({4, 3});
  using Binary = Variable (*)(const Variable&, const Variable&);
  struct Row {
    const char* op;
    Binary call;
  };
  for (const Row& row : {Row{"add", add}, Row{"sub", sub}, Row{"mul", mul}}) {
    const auto with = [&row](const Variable& x, const Variable& y) {
      return [&row, x, y] { (void)row.call(x, y); };
    };
    check_throws<ShapeError>(row.op, with(a, Tensor::zeros({3, 4})), {"b", "(4, 3)", "(3, 4)"});
    check_throws<ShapeError>(row.op, with(a, Tensor::zeros({1, 3})), {"(1, 3)"});
    check_throws<DTypeError>(row.op, with(a, a.to(DType::f16)), {"b", "f32", "f16"});
    const Tensor bytes = Tensor::zeros({2}, DType::e4m3);
    check_throws<DTypeError>(row.op, with(bytes, bytes), {"a", "e4m3"});
    check_throws<OptionError>(row.op, with({}, a), {"a", "none"});
    check_throws<OptionError>(row.op, with(a, {}), {"b", "none"});
  }
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    check_throws<OptionError>("scale", [&] { (void)scale(a, bad); }, {"factor"});
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    check_throws<OptionError>("scale", [&] { (void)scale(a.to(dtype), -1e39); }, {"f32", "1e+39"});
    CHECK_NOTHROW((void)scale(a.to(dtype), 3e38));
  }
  CHECK(values_of(scale(a.to(DType::f64), 1e300).tensor()) == Values(12, 0.0));
  check_throws<DTypeError>("scale", [] { (void)scale(Tensor::zeros({2}, DType::i32), 2.0); },
                           {"x", "i32"});
  check_throws<OptionError>("scale", [] { (void)scale(Variable{}, 2.0); }, {"x", "none"});
}

}  // namespace
}  // namespace tape8
