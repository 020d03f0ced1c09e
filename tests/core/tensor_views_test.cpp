#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/tensor.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

using test::check_throws;

/// 0, 1, 2, ... in row-major order.
Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::from(values, shape, dtype);
}

TEST_CASE("views: slice") {
  const Tensor t = counting({3, 4});
  const Tensor columns = t.slice(1, 1, 3);
  CHECK(columns.shape() == Shape{3, 2});
  CHECK(columns.shares_storage(t));
  CHECK_FALSE(columns.is_contiguous());
  CHECK(columns.to_vector<float>() == std::vector<float>{1, 2, 5, 6, 9, 10});
  CHECK(columns.slice(0, 1, 3).slice(-1, 1, 2).to_vector<float>() == std::vector<float>{6, 10});
  const Tensor rows = t.slice(0, 2, 3);
  CHECK(rows.is_contiguous());
  CHECK(rows.span<float>()[0] == 8.0F);
  CHECK(t.slice(1, 4, 4).shape() == Shape{3, 0});
  CHECK(t.slice(1, 4, 4).to_vector<float>().empty());
}

TEST_CASE("views: slice of one column of one row is contiguous again") {
  const Tensor t = counting({3, 4});
  CHECK(t.slice(0, 1, 2).slice(1, 1, 3).is_contiguous());
  CHECK(t.slice(0, 1, 2).slice(1, 1, 3).span<float>()[1] == 6.0F);
  CHECK_FALSE(t.slice(1, 1, 2).is_contiguous());
}

TEST_CASE("views: slice out of range") {
  const Tensor t = counting({3, 4});
  check_throws<ShapeError>("slice", [&] { (void)t.slice(0, 0, 4); }, {"(3, 4)", "4"});
  check_throws<ShapeError>("slice", [&] { (void)t.slice(0, -1, 2); });
  check_throws<ShapeError>("slice", [&] { (void)t.slice(1, 3, 2); });
  check_throws<ShapeError>("tensor", [&] { (void)t.slice(2, 0, 1); }, {"2"});
  check_throws<ShapeError>("tensor", [&] { (void)t.slice(-3, 0, 1); });
  check_throws<ShapeError>("tensor", [&] { (void)t.transpose(0, 2); });
}

TEST_CASE("views: transpose") {
  const Tensor t = counting({2, 3});
  const Tensor transposed = t.transpose(0, 1);
  CHECK(transposed.shape() == Shape{3, 2});
  CHECK(transposed.shares_storage(t));
  CHECK_FALSE(transposed.is_contiguous());
  CHECK(transposed.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(transposed.transpose(-1, -2).is_contiguous());
  CHECK(counting({2, 3, 4}).transpose(0, 2).to_vector<float>()[1] == 12.0F);
  CHECK(t.transpose(1, 1).to_vector<float>() == t.to_vector<float>());
  CHECK(counting({1, 5}).transpose(0, 1).is_contiguous());
}

TEST_CASE("views: writing through a view writes the memory") {
  Tensor t = counting({2, 3});
  Tensor column = t.slice(1, 1, 2);
  column.fill(-1.0);
  CHECK(t.to_vector<float>() == std::vector<float>{0, -1, 2, 3, -1, 5});
  Tensor transposed = t.transpose(0, 1);
  transposed.copy_from(counting({3, 2}));
  CHECK(t.to_vector<float>() == std::vector<float>{0, 2, 4, 1, 3, 5});
}

TEST_CASE("views: contiguous copies only what needs it") {
  const Tensor t = counting({2, 3});
  CHECK(t.contiguous().shares_storage(t));
  const Tensor copy = t.transpose(0, 1).contiguous();
  CHECK_FALSE(copy.shares_storage(t));
  CHECK(copy.is_contiguous());
  CHECK(copy.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  const Tensor slice = t.slice(0, 1, 2).clone();
  CHECK_FALSE(slice.shares_storage(t));
  CHECK(slice.to_vector<float>() == std::vector<float>{3, 4, 5});
}

TEST_CASE("views: reshape is a view where it can be") {
  const Tensor t = counting({2, 6});
  CHECK(t.reshape({3, 4}).shares_storage(t));
  CHECK(t.reshape({-1, 4}).shape() == Shape{3, 4});
  CHECK(t.reshape({12, -1}).shape() == Shape{12, 1});
  CHECK(t.reshape(Shape{2, 2, 3}).strides()[0] == 6);
  CHECK(counting({}).reshape({1, 1}).shape() == Shape{1, 1});
  CHECK(counting({0, 4}).reshape({-1, 5}).shape() == Shape{0, 5});
  const Tensor turned = t.transpose(0, 1).reshape({-1});
  CHECK_FALSE(turned.shares_storage(t));
  CHECK(turned.to_vector<float>() == std::vector<float>{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11});
  const Tensor tail = t.slice(0, 1, 2).reshape({2, 3});
  CHECK(tail.shares_storage(t));
  CHECK(tail.to_vector<float>() == std::vector<float>{6, 7, 8, 9, 10, 11});
}

TEST_CASE("views: reshape keeps the number of elements") {
  const Tensor t = counting({2, 6});
  check_throws<ShapeError>("reshape", [&] { (void)t.reshape({5}); }, {"(5)", "(2, 6)"});
  check_throws<ShapeError>("reshape", [&] { (void)t.reshape({-1, 5}); });
  check_throws<ShapeError>("reshape", [&] { (void)t.reshape({0, -1}); });
  CHECK_THROWS_AS((void)t.reshape({-1, -1}), ShapeError);
  CHECK_THROWS_AS((void)t.reshape({-2, 6}), ShapeError);
}

TEST_CASE("views: copy_from converts, between any strides") {
  Tensor target = Tensor::zeros({3, 2}, DType::bf16);
  target.copy_from(counting({2, 3}).transpose(0, 1));
  CHECK(target.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  Tensor integers = Tensor::zeros({2, 2}, DType::i32);
  integers.transpose(0, 1).copy_from(counting({2, 2}, DType::e4m3));
  CHECK(integers.to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 2, 1, 3});
  check_throws<ShapeError>("copy_from",
                           [&] {
                             target.copy_from(counting({2, 3}));
                           },
                           {"(2, 3)", "(3, 2)"});
  check_throws<ShapeError>("copy_from", [&] { target.copy_from(counting({6})); });
  CHECK_THROWS_AS(target.copy_from(Tensor{}), Error);
}

TEST_CASE("views: copy_from its own memory reads all before it writes") {
  Tensor square = counting({3, 3});
  square.copy_from(square.transpose(0, 1));
  CHECK(square.to_vector<float>() == std::vector<float>{0, 3, 6, 1, 4, 7, 2, 5, 8});
  Tensor row = counting({5});
  row.slice(0, 1, 5).copy_from(row.slice(0, 0, 4));
  CHECK(row.to_vector<float>() == std::vector<float>{0, 0, 1, 2, 3});
}

}  // namespace
}  // namespace tape8
