#pragma once

#include <cstdint>

#include "backend/cpu/element_formats.hpp"
#include "backend/cpu/kernels.hpp"

namespace tape8::cpu {

// How values become e2m1 codes. A rounder is asked first to make ready for elements of the matrix,
// and then for the codes of vectors of them.

/// e2m1 codes of the nearest values.
class RoundToNearest {
 public:
  RoundToNearest(const BlockCast&, Usage) {}

  void seek(int, std::int64_t, std::int64_t, int) {}
  template <class V>
  [[gnu::always_inline]] typename V::Int codes(const V& x, int) const {
    return E2m1Format::encode(x);
  }
};

/// e2m1 codes of a neighbouring value, the farther one as often as x is nearer to it.
class RoundStochastically {
 public:
  static constexpr int kPlaces = 1024;

  RoundStochastically(const BlockCast& cast, Usage usage) : cast_(cast), usage_(usage) {}

  /// Makes places i to i + count stand for the elements of a row from `col` on.
  void seek(int i, std::int64_t row, std::int64_t col, int count) {
    cast_.random_bits(*cast_.output->rounding, usage_, row * cast_.cols + col, count, random_ + i);
  }

  /// Codes of the elements of places i, i + 1, ...
  template <class V>
  [[gnu::always_inline]] typename V::Int codes(const V& x, int i) const {
    using Int = typename V::Int;
    constexpr std::int32_t kOne = 0x3F800000, kHalf = 0x3F000000, kSix = 0x40C00000;
    const Int clamped = min(magnitude(x), Int(kSix));
    const auto from_half = clamped > Int(kHalf - 1), from_one = clamped > Int(kOne - 1);
    // The value below: with one bit of mantissa, or 0.5 or 0.
    const Int below =
        select(from_one, clamped & Int(~0x3FFFFF), select(from_half, Int(kHalf), Int(0)));
    const Int code = select(from_one, (clamped >> 22) - Int((kOne >> 22) - 2),
                            select(from_half, Int(1), Int(0)));
    // What is above it, in units of the distance to the next value: 0.5, or half the exponent's.
    const Int unit = max(clamped & Int(kInfinityBits), Int(kOne)) - Int(1 << 23);
    const V per_unit = V::from_bits(Int(0x7F000000) - unit);
    const V fraction = (V::from_bits(clamped) - V::from_bits(below)) * per_unit;
    const Int drawn = Int::load_u16(random_ + i) << 7;  // (r + 0.5) 2^-16, exactly
    const V uniform = V::from_bits(Int(kOne) | drawn) - V(1.0F - 0x1p-17F);
    const Int rounded = select(fraction <= uniform, code, code + Int(1));
    const Int sign = (bits(x) >> 28) & Int(8);
    return rounded | select(magnitude(x) > Int(kInfinityBits), Int(0), sign);
  }

 private:
  const BlockCast& cast_;
  Usage usage_;
  std::uint16_t random_[kPlaces];
};

}  // namespace tape8::cpu
