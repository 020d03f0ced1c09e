#pragma once

#include <cstdint>

#include "backend/cpu/element_formats.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/philox_kernels.hpp"
#include "backend/cpu/wide.hpp"

namespace tape8::cpu {

// How values, but for NaN, become e2m1 codes. A rounder is asked first to make elements of the
// matrix ready, which follow each other in a row, as segment 0 to 15; then for the codes of vectors
// of them.

/// Elements of a segment at most; of segment 0, while there are no others, sixteen times as many.
inline constexpr int kRoundingSegment = 64;

/// e2m1 codes of the nearest values.
template <class F>
class RoundToNearest {
 public:
  RoundToNearest(const BlockCast&, Usage) {}

  void seek(int, std::int64_t, std::int64_t, int) {}
  void finish_seek() {}
  const std::uint16_t* at(int, int) const { return nullptr; }
  template <int N, class Place>
  [[gnu::always_inline]] WideInt<typename F::Int, N> codes(const WideFloat<F, N>& x,
                                                           const Place&) const {
    return E2m1Format::encode_number(x);
  }
};

/// e2m1 codes of a neighbouring value, the farther one as often as x is nearer to it.
template <class F>
class RoundStochastically {
 public:
  RoundStochastically(const BlockCast& cast, Usage usage)
      : rounding_(*cast.output->rounding),
        cols_(cast.cols),
        columnwise_(usage == Usage::columnwise) {}

  void seek(int segment, std::int64_t row, std::int64_t col, int count) {
    const auto element = static_cast<std::uint64_t>(row * cols_ + col);
    const auto skipped = static_cast<int>(element % kPhiloxHalves);
    std::uint16_t* const to = bits_ + segment * kSegment;
    for (int i = 0; i < skipped + count; i += kPhiloxBatch<F>) {
      pending_[pending_count_++] = {(element + static_cast<std::uint64_t>(i)) / kPhiloxHalves,
                                    to + i};
      if (pending_count_ == F::kUnroll) {
        random_bits<F>(rounding_, columnwise_, pending_);
        pending_count_ = 0;
      }
    }
    first_[segment] = to + skipped;
  }
  void finish_seek() {
    for (int i = 0; i < pending_count_; ++i) {
      const PhiloxBatch last[1] = {pending_[i]};
      random_bits<F>(rounding_, columnwise_, last);
    }
    pending_count_ = 0;
  }

  /// The place of a segment's elements from i on.
  const std::uint16_t* at(int segment, int i) const { return first_[segment] + i; }

  /// Codes of x, whose part k holds the elements of place(k).
  template <int N, class Place>
  [[gnu::always_inline]] WideInt<typename F::Int, N> codes(const WideFloat<F, N>& x,
                                                           const Place& place) const {
    using V = WideFloat<F, N>;
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
    const Int drawn = each<Int, N>([&](int k) { return F::Int::load_u16(place(k)); });
    // (r + 0.5) 2^-16, exactly.
    const V uniform = V::from_bits(Int(kOne) | (drawn << 7)) - V(1.0F - 0x1p-17F);
    return select(fraction <= uniform, code, code + Int(1)) | ((bits(x) >> 28) & Int(8));
  }

 private:
  static constexpr int kSegments = 16;
  static constexpr int kSegment = kRoundingSegment + kPhiloxBatch<F>;

  const StochasticRounding& rounding_;
  std::int64_t cols_;
  bool columnwise_;
  PhiloxBatch pending_[F::kUnroll];
  int pending_count_ = 0;
  std::uint16_t bits_[kSegments * kSegment];
  const std::uint16_t* first_[kSegments];
};

}  // namespace tape8::cpu
