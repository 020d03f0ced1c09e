#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/shape.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

using test::check_throws;

constexpr std::int64_t kHuge = std::int64_t{1} << 31;

TEST_CASE("shape: sizes, elements and text") {
  const Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape.numel() == 24);
  CHECK(shape[0] == 2);
  CHECK(shape[-1] == 4);
  CHECK(to_string(shape) == "(2, 3, 4)");
  CHECK(to_string(Shape{}) == "()");
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{}.rank() == 0);
  CHECK(Shape{3, 0, 2}.numel() == 0);
  CHECK(Shape(std::vector<std::int64_t>{5, 6}) == Shape{5, 6});
}

TEST_CASE("shape: equality needs the same rank") {
  CHECK(Shape{2} != Shape{2, 1});
  CHECK(Shape{1} != Shape{});
  CHECK(Shape{0} != Shape{});
  CHECK(Shape{2, 3} != Shape{3, 2});
}

TEST_CASE("shape: sizes are 64-bit, and their product is checked") {
  CHECK(Shape{kHuge, 4}.numel() == std::int64_t{1} << 33);
  CHECK(Shape{kHuge, kHuge}.numel() == std::int64_t{1} << 62);
  check_throws<ShapeError>("shape", [] { Shape{kHuge, kHuge, 2}; }, {"2147483648"});
  check_throws<ShapeError>("shape", [] { Shape{kHuge, kHuge, kHuge}; });
  check_throws<ShapeError>("shape", [] { Shape{kHuge, kHuge, kHuge, 0}; });
  check_throws<ShapeError>("shape", [] { Shape{INT64_MAX, INT64_MAX}; });
  check_throws<ShapeError>("shape", [] { Shape{2, -3}; }, {"-3"});
  check_throws<ShapeError>("shape", [] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }, {"9"});
}

TEST_CASE("shape: axes and joins") {
  const Shape shape{2, 3, 4, 5};
  CHECK(shape.axes(1, 3) == Shape{3, 4});
  CHECK(shape.axes(0, -1) == Shape{2, 3, 4});
  CHECK(shape.axes(-2, 4) == Shape{4, 5});
  CHECK(shape.axes(2, 2) == Shape{});
  CHECK(shape.numel(1, 4) == 60);
  CHECK(Shape{2}.joined(Shape{3, 4}) == Shape{2, 3, 4});
  CHECK(Shape{}.joined(Shape{}) == Shape{});
  check_throws<ShapeError>("shape", [&] { shape.axes(3, 5); });
  check_throws<ShapeError>("shape", [&] { shape.axes(3, 1); });
  check_throws<ShapeError>("shape", [&] { shape.joined(Shape{1, 1, 1, 1, 1}); });
  for (const int axis : {4, -5, INT32_MAX, INT32_MIN}) {
    CAPTURE(axis);
    check_throws<ShapeError>("shape", [&] { (void)shape[axis]; }, {std::to_string(axis)});
  }
}

}  // namespace
}  // namespace tape8
