#pragma once

#include <cstdint>

#include "backend/cpu/gemm_formats.hpp"
#include "backend/cpu/gemm_kernels.hpp"

// The tile kernels, written once over the arithmetic of an instruction set. `Math` is a type of the
// including unit's anonymous namespace (see gemm_formats.hpp) with
//   Vector, kLanes        f32 sums or packed 32-bit words, so many of each
//   kRows, kVectors       the largest tile
//   kNarrow               takes operands that are exact in bf16, in pairs of k
//   kPerStep              k values a step: 1 or 2
//   zero, load, load_words, broadcast_word, store, store_words, multiply_add(a, b, sums)
//   broadcast_halves(p, q)          words of *p, then as many of *q; where two blocks of scales fit
//                                   the values of a vector
//   scaled(words, scales)           values times f32 scales, one a word
//   transpose(Vector[kLanes])
//   copy_front(to, from, n)         the first n of an array's values
//   along_k<Format>(p, n)           words of steps from n neighbours in k; the rest are zeros
//   across<Format>(p, next, d, n)   words of one step from n neighbours in the strip at p, and with
//                                   kPerStep 2 at p + next; depth d below kPerStep is padded

namespace tape8::cpu {

template <class Math, int kRows, int kVectors>
void multiply_tile(std::int64_t steps, const std::uint32_t* a, const std::uint32_t* b,
                   bool accumulate, float* sums) {
  using Vector = typename Math::Vector;
  constexpr int kStride = Math::kVectors * Math::kLanes;
  Vector tile[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      tile[r][v] = accumulate ? Math::load(sums + r * kStride + v * Math::kLanes) : Math::zero();
    }
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    Vector columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = Math::load_words(b + v * Math::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vector row = Math::broadcast_word(a + r);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        tile[r][v] = Math::multiply_add(row, columns[v], tile[r][v]);
      }
    }
    a += kRows;
    b += kVectors * Math::kLanes;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Math::store(sums + r * kStride + v * Math::kLanes, tile[r][v]);
    }
  }
}

/// Finds the instance for a number of rows, which is a strip's width.
template <class Math, int kRows = Math::kRows>
void multiply_rows(std::int64_t rows, std::int64_t b_width, std::int64_t steps,
                   const std::uint32_t* a, const std::uint32_t* b, bool accumulate, float* sums) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return multiply_rows<Math, kRows - 1>(rows, b_width, steps, a, b, accumulate, sums);
    }
  }
  if (b_width == Math::kLanes) return multiply_tile<Math, kRows, 1>(steps, a, b, accumulate, sums);
  multiply_tile<Math, kRows, Math::kVectors>(steps, a, b, accumulate, sums);
}

/// A tile of at most kCols columns, in rows that are kStride apart.
template <class Math, class Format, int kStride, int kCols>
std::uint32_t store_tile_as(const TileStore& tile) {
  using Code = typename Format::Code;
  constexpr bool kScaled = sizeof(Code) == 1;
  // The sum of any value, a zero of either sign too, and -0 is that value.
  float bias[kCols];
  std::uint32_t magnitude[kCols];
  for (int c = 0; c < kCols; ++c) {
    const bool inside = c < tile.cols;
    bias[c] = inside && tile.bias != nullptr ? tile.bias[c] : -0.0F;
    magnitude[c] = inside ? ~kSignBit : 0U;
  }

  std::uint32_t largest[kCols] = {};
  Code codes[Math::kRows][kCols];
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const float* sums = tile.sums + r * kStride;
    for (int c = 0; c < kCols; ++c) {
      const float value = sums[c] * tile.factor + bias[c];
      const std::uint32_t bits = float_bits(value) & magnitude[c];
      largest[c] = bits > largest[c] ? bits : largest[c];
      codes[r][c] = static_cast<Code>(Format::encode(kScaled ? value * tile.scale : value));
    }
  }

  Code* d = static_cast<Code*>(tile.d);
  for (std::int64_t r = 0; r < tile.rows; ++r, d += tile.stride) {
    if (tile.cols == kCols) {
      __builtin_memcpy(d, codes[r], sizeof(codes[r]));
    } else {
      Math::copy_front(d, codes[r], tile.cols);
    }
  }
  std::uint32_t most = 0;
  for (const std::uint32_t bits : largest) most = bits > most ? bits : most;
  return most;
}

template <class Math>
std::uint32_t store_tile(const TileStore& tile) {
  constexpr int kHalf = Math::kLanes;
  constexpr int kFull = Math::kVectors * Math::kLanes;
  return visit_format(tile.dtype, [&](auto format) {
    using Format = decltype(format);
    return tile.cols <= kHalf ? store_tile_as<Math, Format, kFull, kHalf>(tile)
                              : store_tile_as<Math, Format, kFull, kFull>(tile);
  });
}

/// `Unit` is any type of the including unit's anonymous namespace.
template <class Unit>
void multiply_rows_f64(const DoubleProduct& p, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kBlock = 32;
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t col = 0; col < p.n; col += kBlock) {
      const std::int64_t cols = p.n - col < kBlock ? p.n - col : kBlock;
      double sums[kBlock] = {};
      for (std::int64_t k = 0; k < p.k; ++k) {
        const double a = p.a[row * p.a_row + k * p.a_k];
        const double* b = p.b + k * p.b_k + col * p.b_col;
        for (std::int64_t c = 0; c < cols; ++c) sums[c] = __builtin_fma(a, b[c * p.b_col], sums[c]);
      }
      for (std::int64_t c = 0; c < cols; ++c) p.d[row * p.n + col + c] = sums[c];
    }
  }
}

}  // namespace tape8::cpu
