#pragma once

#include <cstdint>

#include "backend/cpu/element_formats.hpp"

namespace tape8::cpu {

/// 16 x 16 values, a row a vector.
template <class F>
struct Square {
  static constexpr int kSize = 16;
  F row[kSize];

  [[gnu::always_inline]] void load(const float* values, std::int64_t stride) {
    for (int r = 0; r < kSize; ++r) row[r] = F::load(values + r * stride);
  }
  [[gnu::always_inline]] void store(float* values, std::int64_t stride) const {
    for (int r = 0; r < kSize; ++r) row[r].store(values + r * stride);
  }
  /// Bits of the largest |value| of each column.
  [[gnu::always_inline]] typename F::Int column_amax() const {
    typename F::Int amax(0);
    for (int r = 0; r < kSize; ++r) amax = max(amax, magnitude(row[r]));
    return amax;
  }
  /// Makes every NaN a positive one.
  void clear_nan_signs() {
    for (int r = 0; r < kSize; ++r)
      row[r] = select(is_nan(row[r]), F::from_bits(magnitude(row[r])), row[r]);
  }
};

/// The randomized transform's fixed signs.
inline constexpr float kHadamardSigns[16] = {1,  1,  1,  -1, 1,  -1, -1, -1,
                                             -1, -1, -1, 1,  -1, 1,  -1, -1};

template <class F>
[[gnu::always_inline]] inline void flip_signs(Square<F>& x) {
  for (int r = 0; r < Square<F>::kSize; ++r) x.row[r] = x.row[r] * F(kHadamardSigns[r]);
}

/// One step of the butterfly; then the following ones.
template <int kStride, class F>
[[gnu::always_inline]] inline void butterfly(Square<F>& x) {
  if constexpr (kStride < Square<F>::kSize) {
    for (int i = 0; i < Square<F>::kSize / 2; ++i) {
      const int r = i / kStride * (2 * kStride) + i % kStride;
      const F a = x.row[r], b = x.row[r + kStride];
      x.row[r] = a + b;
      x.row[r + kStride] = a - b;
    }
    butterfly<2 * kStride>(x);
  }
}

/// Each column becomes H16 / 4 of it, Sylvester's; its own inverse.
template <class F>
[[gnu::always_inline]] inline void hadamard_butterfly(Square<F>& x) {
  butterfly<1>(x);
  for (F& row : x.row) row = row * F(0.25F);
}

template <class F>
[[gnu::always_inline]] inline void hadamard_transform(Square<F>& x) {
  flip_signs(x);
  hadamard_butterfly(x);
}

template <class F>
[[gnu::always_inline]] inline void undo_hadamard_transform(Square<F>& x) {
  hadamard_butterfly(x);
  flip_signs(x);
}

}  // namespace tape8::cpu
