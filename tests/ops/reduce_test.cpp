#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/threads.hpp>
#include <tape8/ops/reduce.hpp>

#include "support/check_op.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::kComputeTypes;
using test::Op;
using test::Ran;
using test::Values;
using test::values_of;

struct Case {
  Shape x;
  std::optional<int> axis;  // none: all
  bool is_mean = false;
};

Op op_of(const Case& c) {
  return [c](const std::vector<Variable>& in) {
    if (c.axis) return c.is_mean ? mean(in[0], *c.axis) : sum(in[0], *c.axis);
    return c.is_mean ? mean(in[0]) : sum(in[0]);
  };
}

/// x as [outer, reduced, inner].
struct Sizes {
  std::int64_t outer = 1, reduced = 1, inner = 1;
};

Sizes sizes_of(const Case& c) {
  if (!c.axis) return {1, c.x.numel(), 1};
  const int axis = *c.axis < 0 ? *c.axis + c.x.rank() : *c.axis;
  return {c.x.numel(0, axis), c.x[axis], c.x.numel(axis + 1, c.x.rank())};
}

Shape y_shape(const Case& c) {
  if (!c.axis) return {};
  const int axis = *c.axis < 0 ? *c.axis + c.x.rank() : *c.axis;
  return c.x.axes(0, axis).joined(c.x.axes(axis + 1, c.x.rank()));
}

double factor_of(const Case& c) {
  const std::int64_t reduced = sizes_of(c).reduced;
  if (!c.is_mean) return 1.0;
  return reduced == 0 ? 0.0 : 1.0 / static_cast<double>(reduced);
}

/// Calls visit(index in x, index in y).
template <class Visit>
void for_each(const Case& c, const Visit& visit) {
  const Sizes s = sizes_of(c);
  for (std::int64_t o = 0; o < s.outer; ++o) {
    for (std::int64_t r = 0; r < s.reduced; ++r) {
      for (std::int64_t i = 0; i < s.inner; ++i) {
        visit(static_cast<std::size_t>((o * s.reduced + r) * s.inner + i),
              static_cast<std::size_t>(o * s.inner + i));
      }
    }
  }
}

void check_case(const Case& c, DType dtype) {
  CAPTURE(to_string(c.x));
  CAPTURE(c.axis.value_or(-99));
  CAPTURE(c.is_mean);
  CAPTURE(to_string(dtype));
  const Tensor x = test::random_tensor(c.x, 1, dtype, -1.0, 2.0);
  const Ran ran = test::run({x}, op_of(c));
  CHECK(ran.y.shape() == y_shape(c));
  CHECK(ran.y.dtype() == dtype);
  const Values values = values_of(x);
  const Values dy = values_of(ran.dy);
  Values y(static_cast<std::size_t>(ran.y.numel()));
  Values dx(values.size());
  for_each(c, [&](std::size_t in, std::size_t out) {
    y[out] += values[in] * factor_of(c);
    dx[in] = dy[out] * factor_of(c);
  });
  // Summed in f32 or finer and rounded once: the largest sum has the largest error.
  test::check_close(ran.y, y);
  CHECK(ran.gradients[0].shape() == c.x);
  CHECK(ran.gradients[0].dtype() == dtype);
  test::check_close(ran.gradients[0], dx);
}

TEST_CASE("sum, mean: all elements and every axis, values and gradient") {
  for (const DType dtype : kComputeTypes) {
    for (const bool is_mean : {false, true}) {
      for (const Shape& x : {Shape{}, Shape{1}, Shape{767}, Shape{33, 5}, Shape{2, 17, 3, 4}}) {
        check_case({x, {}, is_mean}, dtype);
        for (int axis = -x.rank(); axis < x.rank(); ++axis) check_case({x, axis, is_mean}, dtype);
      }
    }
  }
}

TEST_CASE("sum, mean: nothing to add up gives 0") {
  for (const DType dtype : kComputeTypes) {
    for (const bool is_mean : {false, true}) {
      for (const Case& c :
           {Case{{0}, {}, is_mean}, Case{{0, 4}, {}, is_mean}, Case{{0, 4}, 0, is_mean},
            Case{{0, 4}, 1, is_mean}, Case{{3, 0}, 1, is_mean}, Case{{3, 0}, 0, is_mean}}) {
        check_case(c, dtype);
      }
      const Tensor y = test::run({Tensor::zeros({0, 4}, dtype)}, op_of({{0, 4}, 0, is_mean})).y;
      CHECK(values_of(y) == Values(4, 0.0));
    }
  }
}

TEST_CASE("sum: 4096 ones of 16 bits, where a 16-bit sum would stop") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(to_string(dtype));
    const Tensor ones = Tensor::full({4096, 8}, 1.0, dtype);
    CHECK(values_of(sum(ones, 0).tensor()) == Values(8, 4096.0));
    CHECK(values_of(sum(ones.transpose(0, 1), 1).tensor()) == Values(8, 4096.0));
    CHECK(sum(ones).tensor().item<double>() == 32768.0);
    CHECK(mean(ones).tensor().item<double>() == 1.0);
  }
  // A mean whose sum is past f16's largest.
  CHECK(mean(Tensor::full({1024}, 1000.0, DType::f16)).tensor().item<double>() == 1000.0);
}

TEST_CASE("sum: the same bits for any number of threads") {
  const Tensor x = test::random_tensor({257, 1031}, 5);
  const int before = num_threads();
  std::vector<std::vector<std::uint8_t>> all;
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    all.push_back(test::bytes_of(sum(x).tensor()));
    all.push_back(test::bytes_of(sum(x, 0).tensor()));
    all.push_back(test::bytes_of(sum(x, 1).tensor()));
  }
  set_num_threads(before);
  for (std::size_t i = 3; i < all.size(); ++i) CHECK(all[i] == all[i % 3]);
}

TEST_CASE("sum, mean: views, and nothing is kept") {
  for (const bool is_mean : {false, true}) {
    for (const std::optional<int> axis : {std::optional<int>{}, std::optional<int>{0},
                                          std::optional<int>{1}, std::optional<int>{2}}) {
      const Case c{{4, 5, 6}, axis, is_mean};
      for (const DType dtype : kComputeTypes) {
        test::check_views({test::random_tensor(c.x, 2, dtype)}, op_of(c));
      }
      CHECK(test::bytes_kept({test::random_tensor(c.x, 2)}, op_of(c)) == 0);
    }
  }
}

TEST_CASE("sum, mean: refusals") {
  const Tensor x = Tensor::zeros({2, 3});
  for (const int axis : {2, -3, 99}) {
    check_throws<ShapeError>("sum", [&] { (void)sum(x, axis); }, {"axis", std::to_string(axis)});
    check_throws<ShapeError>("mean", [&] { (void)mean(x, axis); }, {"axis", std::to_string(axis)});
  }
  check_throws<ShapeError>("sum", [] { (void)sum(Tensor::zeros({}), 0); });
  for (const DType bad : {DType::i64, DType::e5m2}) {
    check_throws<DTypeError>("sum", [&] { (void)sum(x.to(bad)); }, {to_string(bad)});
    check_throws<DTypeError>("mean", [&] { (void)mean(x.to(bad), 0); }, {to_string(bad)});
  }
  check_throws<OptionError>("sum", [] { (void)sum(Variable{}); }, {"none"});
  check_throws<OptionError>("mean", [] { (void)mean(Variable{}, 0); }, {"none"});
}

}  // namespace
}  // namespace tape8
