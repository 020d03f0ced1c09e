#include <algorithm>

#include <fmt/ranges.h>

#include <tape8/core/shape.hpp>

#include "core/fail.hpp"

namespace tape8 {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> sizes)
    : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const std::int64_t> sizes) {
  if (sizes.size() > kMaxRank) {
    fail<ShapeError>("shape: at most {} dimensions: got {}", kMaxRank, sizes.size());
  }
  // The sizes are multiplied without the zeros, so that no later view of a part can overflow
  // either.
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      fail<ShapeError>("shape: sizes must not be negative: got ({})", fmt::join(sizes, ", "));
    }
    if (size > 0 && product > kMaxElements / size) {
      fail<ShapeError>("shape: too many elements: got ({})", fmt::join(sizes, ", "));
    }
    product *= std::max<std::int64_t>(size, 1);
  }
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  rank_ = static_cast<int>(sizes.size());
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes()) product *= size;
  return product;
}

std::int64_t Shape::operator[](int axis) const {
  const int index = axis < 0 ? axis + rank_ : axis;
  if (index < 0 || index >= rank_) {
    fail<ShapeError>("shape: axis must lie within {} dimensions: got {}", rank_, axis);
  }
  return sizes_[static_cast<std::size_t>(index)];
}

Shape Shape::axes(int first, int last) const {
  const int begin = first < 0 ? first + rank_ : first;
  const int end = last < 0 ? last + rank_ : last;
  if (begin < 0 || end > rank_ || begin > end) {
    fail<ShapeError>("shape: axes must lie within {} dimensions: got [{}, {})", rank_, first, last);
  }
  return Shape(
      sizes().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
}

Shape Shape::joined(const Shape& tail) const {
  std::array<std::int64_t, 2 * kMaxRank> all{};
  auto out = std::copy(begin(), end(), all.begin());
  std::copy(tail.begin(), tail.end(), out);
  return Shape(
      std::span<const std::int64_t>(all.data(), static_cast<std::size_t>(rank_ + tail.rank_)));
}

std::string to_string(const Shape& shape) {
  return fmt::format("({})", fmt::join(shape.sizes(), ", "));
}

}  // namespace tape8
