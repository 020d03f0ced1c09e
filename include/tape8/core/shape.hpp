#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include <tape8/core/export.hpp>

namespace tape8 {

/// Most dimensions that a tensor may have.
inline constexpr int kMaxRank = 8;

/// Sizes of a tensor, outermost first; {} is a scalar. A size may be 0. Holds its sizes inline.
class TAPE8_API Shape {
 public:
  Shape() = default;
  /// Throws ShapeError for a negative size, more than kMaxRank of them, or a product past 2^62.
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return rank_; }
  /// Number of elements: the product of the sizes, 1 for a scalar.
  std::int64_t numel() const;
  /// Size of one axis; negative axes count from the end. Throws ShapeError outside the rank.
  std::int64_t operator[](int axis) const;

  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  std::span<const std::int64_t> sizes() const { return {begin(), end()}; }

  /// The axes [first, last); negative bounds count from the end.
  Shape axes(int first, int last) const;
  /// Elements in the axes [first, last).
  std::int64_t numel(int first, int last) const { return axes(first, last).numel(); }
  /// This shape followed by `tail`.
  Shape joined(const Shape& tail) const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.sizes_ == b.sizes_;
  }

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};  // zero past the rank, so that == may compare all
  int rank_ = 0;
};

/// "(2, 3)"; "()" for a scalar.
TAPE8_API std::string to_string(const Shape& shape);

}  // namespace tape8
