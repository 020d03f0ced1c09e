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
};

/// The randomized transform's fixed signs.
inline constexpr float kHadamardSigns[16] = {1,  1,  1,  -1, 1,  -1, -1, -1,
                                             -1, -1, -1, 1,  -1, 1,  -1, -1};

template <class F>
[[gnu::always_inline]] inline void flip_signs(Square<F>& x) {
  for (int r = 0; r < Square<F>::kSize; ++r) x.row[r] = x.row[r] * F(kHadamardSigns[r]);
}

/// Each column becomes H16 / 4 of it, Sylvester's; its own inverse.
template <class F>
[[gnu::always_inline]] inline void hadamard_butterfly(Square<F>& x) {
  for (int stride = 1; stride < Square<F>::kSize; stride *= 2) {
    for (int r = 0; r < Square<F>::kSize; ++r) {
      if ((r & stride) != 0) continue;
      const F a = x.row[r], b = x.row[r + stride];
      x.row[r] = a + b;
      x.row[r + stride] = a - b;
    }
  }
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
