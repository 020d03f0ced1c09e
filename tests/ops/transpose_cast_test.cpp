#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/cast.hpp>
#include <tape8/ops/transpose.hpp>

#include "support/check_op.hpp"
#include "support/float_table.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::kComputeTypes;
using test::Ran;
using test::Values;
using test::values_of;

test::Op exchange(int a, int b) {
  return [=](const std::vector<Variable>& in) { return transpose(in[0], a, b); };
}

test::Op cast_to(DType dtype) {
  return [=](const std::vector<Variable>& in) { return cast(in[0], dtype); };
}

TEST_CASE("transpose: a view forward, the exchange back for the gradient") {
  for (const DType dtype : kComputeTypes) {
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 3, 5}, Shape{0, 3, 4}, Shape{1, 767, 2}}) {
      for (int a = -3; a < 3; ++a) {
        for (int b = -3; b < 3; ++b) {
          CAPTURE(to_string(shape));
          CAPTURE(a);
          CAPTURE(b);
          const Tensor x = test::random_tensor(shape, 1, dtype);
          const Ran ran = test::run({x}, exchange(a, b));
          CHECK(ran.y.shares_storage(x));
          CHECK(ran.y.shape()[a] == shape[b]);
          CHECK(ran.y.shape()[b] == shape[a]);
          CHECK(ran.gradients[0].shape() == shape);
          CHECK(ran.gradients[0].dtype() == dtype);
          CHECK(values_of(ran.gradients[0]) == values_of(ran.dy.transpose(a, b)));
        }
      }
    }
  }
}

TEST_CASE("transpose: which element goes where") {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  CHECK(values_of(transpose(x, 0, 1).tensor()) == Values{1, 4, 2, 5, 3, 6});
  CHECK(values_of(transpose(x, -1, -2).tensor()) == Values{1, 4, 2, 5, 3, 6});
  CHECK(values_of(transpose(x, 1, 1).tensor()) == values_of(x));
}

TEST_CASE("transpose: keeps nothing, takes views") {
  CHECK(test::bytes_kept({test::random_tensor({4, 6}, 1)}, exchange(0, 1)) == 0);
  for (const DType dtype : kComputeTypes) {
    test::check_views({test::random_tensor({4, 6, 3}, 2, dtype)}, exchange(0, 2));
  }
}

TEST_CASE("transpose: refusals name the op") {
  const Tensor x = Tensor::zeros({2, 3});
  for (const int axis : {2, -3}) {
    check_throws<ShapeError>("transpose", [&] { (void)transpose(x, axis, 0); }, {"axis"});
    check_throws<ShapeError>("transpose", [&] { (void)transpose(x, 0, axis); }, {"axis"});
  }
  check_throws<ShapeError>("transpose", [] { (void)transpose(Tensor::zeros({}), 0, 0); });
  check_throws<OptionError>("transpose", [] { (void)transpose(Variable{}, 0, 1); }, {"x", "none"});
}

TEST_CASE("cast: each value rounded once, the gradient cast back") {
  for (const DType from : kComputeTypes) {
    for (const DType to : kComputeTypes) {
      for (const Shape& shape : {Shape{}, Shape{767}, Shape{3, 5}, Shape{0, 2}}) {
        CAPTURE(to_string(from));
        CAPTURE(to_string(to));
        CAPTURE(to_string(shape));
        const Tensor x = test::random_tensor(shape, 1, from, -3.0, 3.0);
        const Ran ran = test::run({x}, cast_to(to));
        CHECK(ran.y.shape() == shape);
        CHECK(ran.y.dtype() == to);
        CHECK(values_of(ran.y) == test::rounded(values_of(x), to));
        CHECK(ran.gradients[0].dtype() == from);
        CHECK(values_of(ran.gradients[0]) == test::rounded(values_of(ran.dy), from));
      }
    }
  }
}

TEST_CASE("cast: from f64 to 16 bits in one rounding, not by way of f32") {
  struct Row {
    DType dtype;
    double value, rounded;
  };
  // Just past the middle between two neighbours, by less than f32 can tell.
  for (const Row& row :
       {Row{DType::bf16, 1.0 + 0x1p-8 + 0x1p-40, 1.0 + 0x1p-7}, Row{DType::bf16, 1.0 + 0x1p-8, 1.0},
        Row{DType::f16, 1.0 + 0x1p-11 + 0x1p-40, 1.0 + 0x1p-10},
        Row{DType::f16, -1.0 - 0x1p-11 - 0x1p-40, -1.0 - 0x1p-10},
        Row{DType::f16, 1.0 + 0x1p-11, 1.0}}) {
    CAPTURE(to_string(row.dtype));
    CAPTURE(row.value);
    CHECK(cast(Tensor::from({row.value}, {1}), row.dtype).tensor().item<double>() == row.rounded);
  }
}

TEST_CASE("cast: keeps nothing, takes views, refuses what is not computed on") {
  for (const DType to : kComputeTypes) {
    CHECK(test::bytes_kept({test::random_tensor({64}, 1)}, cast_to(to)) == 0);
    test::check_views({test::random_tensor({4, 6, 3}, 2, DType::f16)}, cast_to(to));
  }
  for (const DType bad : {DType::i32, DType::e4m3, DType::boolean}) {
    const Tensor x = Tensor::zeros({2});
    check_throws<DTypeError>("cast", [&] { (void)cast(x, bad); }, {"dtype", to_string(bad)});
    check_throws<DTypeError>("cast", [&] { (void)cast(x.to(bad), DType::f32); },
                             {"x", to_string(bad)});
  }
  check_throws<OptionError>("cast", [] { (void)cast(Variable{}, DType::f32); }, {"x", "none"});
}

}  // namespace
}  // namespace tape8
