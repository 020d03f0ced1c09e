#pragma once

#include <cstdint>

#include "backend/cuda/block_scales.hpp"
#include "backend/cuda/block_tile.hpp"
#include "backend/cuda/e2m1_rounding.hpp"
#include "backend/cuda/hadamard.hpp"

namespace tape8::cuda {

inline constexpr int kNvfp4Block = 16;
using Nvfp4Codes = Chunk<kNvfp4Block / 2>;

/// A block's codes, two to a byte, the first one low. random(i) gives 16 bits for value i.
template <bool kStochastic, class Random>
__device__ Nvfp4Codes cast_nvfp4(const float (&x)[kNvfp4Block], float multiplier,
                                 const Random& random) {
  Nvfp4Codes codes{};
  TAPE8_UNROLL
  for (int i = 0; i < kNvfp4Block; ++i) {
    const float value = x[i] * multiplier;
    const std::uint32_t code = kStochastic ? random_e2m1(value, random(i)) : nearest_e2m1(value);
    codes.words[i / 8] |= code << 4 * (i % 8);
  }
  return codes;
}

/// The i-th of values of 16 bits in words.
inline __device__ std::uint32_t half_of(std::uint32_t word, int i) {
  return i % 2 == 0 ? word & 0xFFFFU : word >> 16U;
}

/// NVFP4: rowwise a lane's vectors are blocks; columnwise four lanes trade theirs for columns.
template <bool kStochastic>
struct Nvfp4Blocks {
  /// Of the tile's columns, each 8 blocks; codes lie at column_codes().
  struct Shared {
    Nvfp4Codes codes[kTile * kTileWarps];
    std::uint8_t scales[kTile][kTileWarps];
  };

  bool squares;
  bool hadamard;
  StochasticRounding rounding;
  BlockPart rowwise, columnwise;

  explicit Nvfp4Blocks(const BlockOutput& output)
      : squares(output.scaling_mode == ScalingMode::nvfp4_2d),
        hadamard(output.hadamard),
        rounding(output.rounding == nullptr ? StochasticRounding{} : *output.rounding),
        rowwise(output.rowwise),
        columnwise(output.columnwise) {}

  /// By one block of the grid.
  __device__ void begin() const {
    if (threadIdx.x != 0) return;
    store_tensor_scale(rowwise);
    store_tensor_scale(columnwise);
  }

  __device__ void cast(const TilePart& part, float (&x)[kLaneRows][kVector], Shared& shared) const {
    const std::uint32_t square_amax = squares ? largest_of_square(x) : 0;
    if (rowwise.data != nullptr) cast_rows(part, x, square_amax);
    if (columnwise.data == nullptr) return;
    cast_columns(part, x, square_amax, shared);
    __syncthreads();
    store_columns(part, shared);
  }

 private:
  static __device__ void store_tensor_scale(const BlockPart& part) {
    if (part.data == nullptr) return;
    part.tensor_scale_inv->value = Nvfp4Scales(*part.amax).tensor_scale_inv;
  }

  /// Of the square of 16 x 16 that the lane's vectors are in.
  static __device__ std::uint32_t largest_of_square(const float (&x)[kLaneRows][kVector]) {
    return largest_of_lanes(largest_bits(x), kWarp / kTileVectors, kTileVectors);
  }

  __device__ void cast_rows(const TilePart& part, const float (&x)[kLaneRows][kVector],
                            std::uint32_t square_amax) const {
    const Nvfp4Scales scales(*rowwise.amax);
    const std::int64_t row_blocks = divide_up(part.cols, std::int64_t{kNvfp4Block});
    TAPE8_UNROLL
    for (int j = 0; j < kLaneRows; ++j) {
      if (part.count(j) == 0) continue;
      const std::int64_t row = part.row() + j;
      const std::uint8_t scale = scales.code(squares ? square_amax : largest_bits(x[j]));
      std::uint32_t random[kVector / 2] = {};
      if constexpr (kStochastic) {
        draw_random_bits(rounding, false, row * part.cols + part.col(), random);
      }
      const std::int64_t at = row * row_blocks + part.col() / kNvfp4Block;
      static_cast<Nvfp4Codes*>(rowwise.data)[at] = cast_nvfp4<kStochastic>(
          x[j], scales.multiplier(scale), [&](int i) { return half_of(random[i / 2], i); });
      auto* const scale_inv = static_cast<std::uint8_t*>(rowwise.scale_inv);
      if (!squares) {
        scale_inv[at] = scale;
      } else if (row % kNvfp4Block == 0) {
        scale_inv[row / kNvfp4Block * row_blocks + part.col() / kNvfp4Block] = scale;
      }
    }
  }

  /// Where a block of a column of the tile lies: apart for lanes that write together.
  static __device__ int column_codes(int col, int block) {
    return col * kTileWarps + (block ^ col / kVector);
  }

  __device__ void cast_columns(const TilePart& part, float (&x)[kLaneRows][kVector],
                               std::uint32_t square_amax, Shared& shared) const {
    const Nvfp4Scales scales(*columnwise.amax);
    std::uint32_t random[kLaneRows][kVector / 2] = {};
    if constexpr (kStochastic) {
      TAPE8_UNROLL
      for (int j = 0; j < kLaneRows; ++j) {
        draw_random_bits(rounding, true, (part.row() + j) * part.cols + part.col(), random[j]);
      }
      transpose(random);
    }
    transpose(x);
    TAPE8_UNROLL
    for (int i = 0; i < kVector / 4; ++i) {
      float column[kNvfp4Block];
      TAPE8_UNROLL
      for (int r = 0; r < kNvfp4Block; ++r) column[r] = transposed(x, r, i);
      if (hadamard) hadamard_transform(column);
      const std::uint8_t scale = scales.code(squares ? square_amax : largest_bits(column));
      const int col = part.quarter_col() + i;
      shared.codes[column_codes(col, part.warp())] =
          cast_nvfp4<kStochastic>(column, scales.multiplier(scale),
                                  [&](int r) { return half_of(transposed(random, r, i / 2), i); });
      shared.scales[col][part.warp()] = scale;
    }
  }

  /// Each column of the matrix is a row of its transpose.
  __device__ void store_columns(const TilePart& part, const Shared& shared) const {
    const std::int64_t row_blocks = divide_up(part.rows, std::int64_t{kNvfp4Block});
    auto* const scale_inv = static_cast<std::uint8_t*>(columnwise.scale_inv);
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kTileWarps; i += kTileThreads) {
      const int tile_col = i / kTileWarps, tile_block = i % kTileWarps;
      const std::int64_t col = part.tile_col + tile_col;
      const std::int64_t block = part.tile_row / kNvfp4Block + tile_block;
      if (col >= part.cols || block >= row_blocks) continue;
      const std::int64_t at = col * row_blocks + block;
      static_cast<Nvfp4Codes*>(columnwise.data)[at] =
          shared.codes[column_codes(tile_col, tile_block)];
      const std::uint8_t scale = shared.scales[tile_col][tile_block];
      if (!squares) {
        scale_inv[at] = scale;
      } else if (tile_col % kNvfp4Block == 0) {
        scale_inv[col / kNvfp4Block * row_blocks + block] = scale;
      }
    }
  }
};

/// No blocks: values, where they are wanted, and the amax of what a columnwise cast would make of
/// them by the transform.
struct HadamardAmax {
  struct Shared {};

  Sink y;
  Amax* amax;

  __device__ void begin() const {}

  __device__ void cast(const TilePart& part, float (&x)[kLaneRows][kVector], Shared&) const {
    if (y.data != nullptr) {
      TAPE8_UNROLL
      for (int j = 0; j < kLaneRows; ++j) {
        y.store((part.row() + j) * part.cols + part.col(), part.count(j), x[j]);
      }
    }
    std::uint32_t bits = 0;
    transpose(x);
    TAPE8_UNROLL
    for (int i = 0; i < kVector / 4; ++i) {
      float column[kNvfp4Block];
      TAPE8_UNROLL
      for (int r = 0; r < kNvfp4Block; ++r) column[r] = transposed(x, r, i);
      hadamard_transform(column);
      bits = larger(bits, largest_bits(column));
    }
    note_amax(amax, bits);
  }
};

}  // namespace tape8::cuda
