#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/block_cast_kernels.hpp"
#include "backend/cpu/e2m1_rounding.hpp"
#include "backend/cpu/element_formats.hpp"
#include "backend/cpu/hadamard.hpp"
#include "backend/cpu/kernels.hpp"

namespace tape8::cpu {

// NVFP4: e2m1 in blocks of 16 values, two a byte, with e4m3 scales.

inline constexpr int kNvfp4Block = 16;
inline constexpr int kNvfp4BlockBytes = 8;
/// Rows of blocks in a band: their bytes of one column fill a cache line.
inline constexpr int kNvfp4BandBlocks = 8;

/// s = e4m3(amax / 6 * t) is stored, and 1 / (s / t) multiplies.
struct Nvfp4Scales {
  using Stored = std::uint8_t;
  TensorScale tensor;

  template <class V>
  [[gnu::always_inline]] V operator()(const typename V::Int& amax, Stored* scale_inv,
                                      std::int64_t count) const {
    Stored codes[V::kLanes];
    E4m3Format::store(codes, V::from_bits(amax) / V(6.0F) * V(tensor.scale));
    __builtin_memcpy(scale_inv, codes,
                     static_cast<std::size_t>(count < V::kLanes ? count : V::kLanes));
    const V scale = E4m3Format::load<V>(codes) * V(tensor.scale_inv);
    return min(V(1.0F) / scale, V(kLargestFloat));  // which replaces a NaN too
  }
};

/// One usage's part of the matrix: rows of blocks, and their scales.
struct Nvfp4Part {
  std::uint8_t* data;
  std::uint8_t* scale_inv;
  std::int64_t row_blocks;
};

template <class F>
Nvfp4Part nvfp4_part(const BlockPart& part, std::int64_t row_length) {
  return {.data = static_cast<std::uint8_t*>(part.data),
          .scale_inv = static_cast<std::uint8_t*>(part.scale_inv),
          .row_blocks = (row_length + kNvfp4Block - 1) / kNvfp4Block};
}

/// Blocks along the rows of a tile.
template <class F, class Rounding>
[[gnu::flatten]] void cast_nvfp4_rows(const BlockCast& cast, Tile tile, TileValues values) {
  const Nvfp4Part part = nvfp4_part<F>(cast.output->rowwise, cast.cols);
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const std::int64_t row_blocks = (tile.cols.end - tile.cols.begin + kNvfp4Block - 1) / kNvfp4Block;
  const std::int64_t first = tile.rows.begin * part.row_blocks + tile.cols.begin / kNvfp4Block;
  Rounding rounding(cast, Usage::rowwise);
  for_each_block_run<F, kNvfp4Block>(
      Nvfp4Scales{cast.rowwise}, rows, row_blocks, values, part.scale_inv + first, part.row_blocks,
      [&](const BlockRun& run) {
        const std::int64_t col = run.block * kNvfp4Block;
        fetch<F>(values.ahead, run.row, col, run.count * kNvfp4Block);
        rounding.seek(0, tile.rows.begin + run.row, tile.cols.begin + col, run.count * kNvfp4Block);
        std::uint8_t* const data =
            part.data + (first + run.row * part.row_blocks + run.block) * kNvfp4BlockBytes;
        for (int b = 0; b < run.count; ++b) {
          const F x = F::load(run.values + b * kNvfp4Block) * F(run.multipliers[b]);
          rounding.codes(x, 0, b * kNvfp4Block).store_u4(data + b * kNvfp4BlockBytes);
        }
      });
}

/// Codes of a band's columns, and their scales, on their way to where each column is a row.
struct ColumnStage {
  std::uint8_t* codes;   // kNvfp4BandBlocks blocks a column
  std::uint8_t* scales;  // kNvfp4BandBlocks rows of `width`
  std::int64_t width;

  explicit ColumnStage(const TileValues& tile)
      : codes(tile.stage),
        scales(tile.stage + tile.stride * kNvfp4BandBlocks * kNvfp4BlockBytes),
        width(tile.stride) {}

  std::uint8_t* block(std::int64_t block, std::int64_t col) const {
    return codes + (col * kNvfp4BandBlocks + block) * kNvfp4BlockBytes;
  }
  std::uint8_t* scale(std::int64_t block, std::int64_t col) const {
    return scales + block * width + col;
  }
};

/// Stages the codes of sixteen columns' blocks; code(r) gives those of row r.
template <class F, class Code>
[[gnu::always_inline]] inline void stage_blocks(std::uint8_t* to, const Code& code) {
  using Int = typename F::Int;
  constexpr int kHalf = kNvfp4Block / 2;
  Int low(0), high(0);
  for (int r = 0; r < kHalf; ++r) {
    low = low | (code(r) << static_cast<unsigned>(4 * r));
    high = high | (code(r + kHalf) << static_cast<unsigned>(4 * r));
  }
  float words[2][F::kLanes];  // of bits
  F::from_bits(low).store(words[0]);
  F::from_bits(high).store(words[1]);
  for (int lane = 0; lane < F::kLanes; ++lane) {
    std::uint8_t* const column = to + lane * kNvfp4BandBlocks * kNvfp4BlockBytes;
    __builtin_memcpy(column, words[0] + lane, sizeof(float));
    __builtin_memcpy(column + sizeof(float), words[1] + lane, sizeof(float));
  }
}

/// Calls body(first row, column, ready column, square of values) for all values of a tile; begin is
/// called as begin(first row, column) before each kRoundingSegment columns of a block of rows.
template <class F, class Begin, class Body>
[[gnu::always_inline]] inline void for_each_square(const Tile& tile, const TileValues& values,
                                                   const Begin& begin, const Body& body) {
  for (std::int64_t r = tile.rows.begin; r < tile.rows.end; r += kNvfp4Block) {
    for (std::int64_t c = tile.cols.begin; c < tile.cols.end; c += F::kLanes) {
      const auto ready = static_cast<int>((c - tile.cols.begin) % kRoundingSegment);
      if (ready == 0) begin(r, c);
      for (int i = 0; i < kNvfp4Block; ++i) {
        fetch<F>(values.ahead, r - tile.rows.begin + i, c - tile.cols.begin, F::kLanes);
      }
      Square<F> x;
      x.load(values.values + (r - tile.rows.begin) * values.stride + (c - tile.cols.begin),
             values.stride);
      body(r, c, ready, x);
    }
  }
}

/// Makes rounding ready for kRoundingSegment columns of a block of rows.
template <class Rounding>
[[gnu::always_inline]] inline void seek_square(Rounding& rounding, std::int64_t row,
                                               std::int64_t col) {
  for (int r = 0; r < kNvfp4Block; ++r) rounding.seek(r, row + r, col, kRoundingSegment);
}

/// Columnwise, blocks along the columns of whole blocks of rows.
template <class F, class Rounding>
[[gnu::flatten]] void cast_nvfp4_columns(const BlockCast& cast, Tile tile, TileValues values) {
  const ColumnStage stage(values);
  const Nvfp4Scales scales{cast.columnwise};
  const bool hadamard = cast.output->hadamard;
  Rounding rounding(cast, Usage::columnwise);
  for_each_square<F>(
      tile, values, [&](std::int64_t r, std::int64_t c) { seek_square(rounding, r, c); },
      [&](std::int64_t r, std::int64_t c, int ready, Square<F>& x) {
        if (hadamard) hadamard_transform(x);
        const std::int64_t block = r / kNvfp4Block % kNvfp4BandBlocks;
        const std::int64_t col = c - tile.cols.begin;
        const F multipliers =
            scales.template operator()<F>(x.column_amax(), stage.scale(block, col), F::kLanes);
        stage_blocks<F>(stage.block(block, col),
                        [&](int i) { return rounding.codes(x.row[i] * multipliers, i, ready); });
      });
}

/// Both usages, blocks of 16 x 16.
template <class F, class Rounding>
[[gnu::flatten]] void cast_nvfp4_squares(const BlockCast& cast, Tile tile, TileValues values) {
  using Int = typename F::Int;
  const BlockOutput& output = *cast.output;
  const bool wants_rows = output.rowwise.data != nullptr;
  const bool wants_columns = output.columnwise.data != nullptr;
  const Nvfp4Part rowwise = nvfp4_part<F>(output.rowwise, cast.cols);
  const Nvfp4Part columnwise = nvfp4_part<F>(output.columnwise, cast.rows);
  const ColumnStage stage(values);
  Rounding row_rounding(cast, Usage::rowwise), column_rounding(cast, Usage::columnwise);
  const auto begin = [&](std::int64_t r, std::int64_t c) {
    if (wants_rows) seek_square(row_rounding, r, c);
    if (wants_columns) seek_square(column_rounding, r, c);
  };
  for_each_square<F>(
      tile, values, begin, [&](std::int64_t r, std::int64_t c, int ready, const Square<F>& x) {
        const Int amax(reduce_max(x.column_amax()));
        const std::int64_t row_block = r / kNvfp4Block, col_block = c / kNvfp4Block;
        if (wants_rows) {
          const std::int64_t at = row_block * rowwise.row_blocks + col_block;
          const F multiplier =
              Nvfp4Scales{cast.rowwise}.template operator()<F>(amax, rowwise.scale_inv + at, 1);
          for (int i = 0; i < kNvfp4Block; ++i) {
            if (r + i >= tile.rows.end) break;
            const Int codes = row_rounding.codes(x.row[i] * multiplier, i, ready);
            codes.store_u4(rowwise.data +
                           ((r + i) * rowwise.row_blocks + col_block) * kNvfp4BlockBytes);
          }
        }
        if (wants_columns) {
          const std::int64_t at = col_block * columnwise.row_blocks + row_block;
          const F multiplier = Nvfp4Scales{cast.columnwise}.template operator()<F>(
              amax, columnwise.scale_inv + at, 1);
          stage_blocks<F>(
              stage.block(row_block % kNvfp4BandBlocks, c - tile.cols.begin),
              [&](int i) { return column_rounding.codes(x.row[i] * multiplier, i, ready); });
        }
      });
}

/// Writes out a tile's columns.
template <class F>
void end_nvfp4_rows(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  const ColumnStage stage(values);
  const Nvfp4Part part = nvfp4_part<F>(output.columnwise, cast.rows);
  const std::int64_t first = tile.rows.begin / kNvfp4Block;
  const std::int64_t blocks = (tile.rows.end - tile.rows.begin + kNvfp4Block - 1) / kNvfp4Block;
  for (std::int64_t c = 0; c < tile.cols.end - tile.cols.begin; ++c) {
    const std::int64_t at = (tile.cols.begin + c) * part.row_blocks + first;
    __builtin_memcpy(part.data + at * kNvfp4BlockBytes, stage.block(0, c),
                     static_cast<std::size_t>(blocks * kNvfp4BlockBytes));
    if (output.scaling_mode == ScalingMode::nvfp4_2d) continue;
    for (std::int64_t b = 0; b < blocks; ++b) part.scale_inv[at + b] = *stage.scale(b, c);
  }
}

/// The amax of a band's columns after the transform.
template <class F>
[[gnu::flatten]] AmaxBits hadamard_amax(Tile tile, TileValues values) {
  typename F::Int amax(0);
  for (std::int64_t r = 0; r < tile.rows.end - tile.rows.begin; r += kNvfp4Block) {
    for (std::int64_t c = 0; c < tile.cols.end - tile.cols.begin; c += F::kLanes) {
      Square<F> x;
      x.load(values.values + r * values.stride + c, values.stride);
      hadamard_transform(x);
      amax = max(amax, x.column_amax());
    }
  }
  return reduce_max(amax);
}

template <class F, class Rounding>
void cast_nvfp4(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  if (output.scaling_mode == ScalingMode::nvfp4_2d) {
    return cast_nvfp4_squares<F, Rounding>(cast, tile, values);
  }
  if (output.rowwise.data != nullptr) cast_nvfp4_rows<F, Rounding>(cast, tile, values);
  if (output.columnwise.data != nullptr) cast_nvfp4_columns<F, Rounding>(cast, tile, values);
}

}  // namespace tape8::cpu
