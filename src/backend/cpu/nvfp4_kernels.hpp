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
template <class F>
struct Nvfp4Part {
  std::uint8_t* data;
  std::uint8_t* scale_inv;
  std::int64_t row_blocks;

  Nvfp4Part(const BlockPart& part, std::int64_t row_length)
      : data(static_cast<std::uint8_t*>(part.data)),
        scale_inv(static_cast<std::uint8_t*>(part.scale_inv)),
        row_blocks((row_length + kNvfp4Block - 1) / kNvfp4Block) {}

  std::int64_t row_bytes() const { return row_blocks * kNvfp4BlockBytes; }
  std::uint8_t* block(std::int64_t row, std::int64_t block) const {
    return data + (row * row_blocks + block) * kNvfp4BlockBytes;
  }
};

/// Calls body.template operator()<N>(b) for N blocks at a time, and one by one at the end.
template <class F, class Body>
[[gnu::always_inline]] inline void for_each_blocks(int count, const Body& body) {
  int b = 0;
  for (; b + F::kUnroll <= count; b += F::kUnroll) body.template operator()<F::kUnroll>(b);
  for (; b < count; ++b) body.template operator()<1>(b);
}

/// Blocks along the rows of a tile.
template <class F, class Rounding>
[[gnu::flatten]] void cast_nvfp4_rows(const BlockCast& cast, Tile tile, TileValues values) {
  const Nvfp4Part<F> part(cast.output->rowwise, cast.cols);
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const std::int64_t row_blocks = (tile.cols.end - tile.cols.begin + kNvfp4Block - 1) / kNvfp4Block;
  const std::int64_t first_block = tile.cols.begin / kNvfp4Block;
  Rounding rounding(cast, Usage::rowwise);
  for_each_block_run<F, kNvfp4Block>(
      Nvfp4Scales{cast.rowwise}, rows, row_blocks, values,
      part.scale_inv + tile.rows.begin * part.row_blocks + first_block, part.row_blocks,
      [&](const BlockRun& run) {
        const std::int64_t row = tile.rows.begin + run.row;
        const std::int64_t col = run.block * kNvfp4Block;
        fetch<F>(values.ahead, run.row, col, run.count * kNvfp4Block);
        rounding.seek(0, row, tile.cols.begin + col, run.count * kNvfp4Block);
        rounding.finish_seek();
        std::uint8_t* const data = part.block(row, first_block + run.block);
        for_each_blocks<F>(run.count, [&]<int N>(int b) {
          using W = WideFloat<F, N>;
          W x = each<W, N>([&](int k) {
            return F::load(run.values + (b + k) * kNvfp4Block) * F(run.multipliers[b + k]);
          });
          if (!run.finite) x = select(is_nan(x), W::from_bits(magnitude(x)), x);
          const auto codes =
              rounding.codes(x, [&](int k) { return rounding.at(0, (b + k) * kNvfp4Block); });
          for (int k = 0; k < N; ++k) codes.part[k].store_u4(data + (b + k) * kNvfp4BlockBytes);
        });
      });
}

/// Codes of a band's columns, and their scales, on their way to where each column is a row.
template <class F>
struct ColumnStage {
  static constexpr std::int64_t kColumnBytes = kNvfp4BandBlocks * kNvfp4BlockBytes;

  std::uint8_t* codes;   // kNvfp4BandBlocks blocks a column
  std::uint8_t* scales;  // kNvfp4BandBlocks rows of `width`
  std::int64_t width;

  explicit ColumnStage(const TileValues& tile)
      : codes(tile.stage), scales(tile.stage + tile.stride * kColumnBytes), width(tile.stride) {}

  std::uint8_t* block(std::int64_t block, std::int64_t col) const {
    return codes + col * kColumnBytes + block * kNvfp4BlockBytes;
  }
  std::uint8_t* scale(std::int64_t block, std::int64_t col) const {
    return scales + block * width + col;
  }
};

/// Sixteen rows of some columns of a tile: columns of blocks, or squares of them.
template <class F>
struct BlockGroup {
  static constexpr int kCols = kRoundingSegment;

  float* values;
  std::int64_t stride;
  int cols;  // a multiple of 16
  alignas(64) float amaxes[kCols];
  alignas(64) float multipliers[kCols];
  std::uint8_t scales[kCols];

  /// Finds the amax of each column, or of its square. A transform, and making every NaN positive as
  /// its code will be, change the values in place.
  [[gnu::always_inline]] void prepare(bool hadamard, bool squares) {
    for (int c = 0; c < cols; c += F::kLanes) {
      Square<F> x;
      x.load(values + c, stride);
      if (hadamard) {
        hadamard_transform(x);
        x.store(values + c, stride);
      }
      typename F::Int amax = x.column_amax();
      const AmaxBits largest = reduce_max(amax);
      if (largest > kInfinityBits) {
        x.clear_nan_signs();
        x.store(values + c, stride);
      }
      if (squares) amax = typename F::Int(largest);
      F::from_bits(amax).store(amaxes + c);
    }
  }

  [[gnu::always_inline]] void scale(const Nvfp4Scales& block_scales) {
    for_each_vector<F, F::kUnroll>(cols, [&]<class V>(int c) {
      const auto amax = bits(V::load(amaxes + c));
      block_scales.template operator()<V>(amax, scales + c, V::kLanes).store(multipliers + c);
    });
  }

  /// The codes of eight rows of sixteen columns in a lane each, those of row `first` lowest.
  template <class Rounding>
  [[gnu::always_inline]] typename F::Int pack_rows(const Rounding& rounding, int first,
                                                   int c) const {
    constexpr int N = F::kUnroll;
    using W = WideFloat<F, N>;
    const F multiplier = F::load(multipliers + c);
    typename F::Int word(0);
    for (int r = first; r < first + 8; r += N) {
      const W x =
          each<W, N>([&](int k) { return F::load(values + (r + k) * stride + c) * multiplier; });
      const auto codes = rounding.codes(x, [&](int k) { return rounding.at(r + k, c); });
      word = word >> (4 * N);
      for (int k = 0; k < N; ++k) {
        word = word | (codes.part[k] << static_cast<unsigned>(32 - 4 * (N - k)));
      }
    }
    return word;
  }

  /// Writes each column's codes to its place, which follow each other at `column_bytes`.
  template <class Rounding>
  [[gnu::always_inline]] void cast_columns(const Rounding& rounding, std::uint8_t* to,
                                           std::int64_t column_bytes) const {
    for (int c = 0; c < cols; c += F::kLanes) {
      std::int32_t words[2 * F::kLanes];
      F::Int::store_by_turns(pack_rows(rounding, 0, c), pack_rows(rounding, 8, c), words);
      for (int lane = 0; lane < F::kLanes; ++lane) {
        __builtin_memcpy(to + (c + lane) * column_bytes, words + 2 * lane, kNvfp4BlockBytes);
      }
    }
  }

  /// Writes the codes of the first `rows` rows, `row_bytes` apart.
  template <class Rounding>
  [[gnu::always_inline]] void cast_rows(const Rounding& rounding, std::int64_t rows,
                                        std::uint8_t* to, std::int64_t row_bytes) const {
    for (int r = 0; r < rows; ++r) {
      for_each_blocks<F>(cols / kNvfp4Block, [&]<int N>(int b) {
        using W = WideFloat<F, N>;
        const int c = b * kNvfp4Block;
        const W x = W::load(values + r * stride + c) * W::load(multipliers + c);
        const auto codes =
            rounding.codes(x, [&](int k) { return rounding.at(r, c + k * kNvfp4Block); });
        for (int k = 0; k < N; ++k) {
          codes.part[k].store_u4(to + r * row_bytes + (b + k) * kNvfp4BlockBytes);
        }
      });
    }
  }
};

/// Calls body(first row, first column, BlockGroup) for all values of a tile.
template <class F, class Body>
[[gnu::always_inline]] inline void for_each_group(const Tile& tile, const TileValues& values,
                                                  const Body& body) {
  constexpr int kCols = BlockGroup<F>::kCols;
  const std::int64_t groups = (tile.cols.end - tile.cols.begin + kCols - 1) / kCols;
  BlockGroup<F> group;
  group.stride = values.stride;
  for (std::int64_t r = tile.rows.begin; r < tile.rows.end; r += kNvfp4Block) {
    for (std::int64_t c = tile.cols.begin; c < tile.cols.end; c += kCols) {
      const std::int64_t row = r - tile.rows.begin, col = c - tile.cols.begin;
      const std::int64_t padded = (tile.cols.end - c + kNvfp4Block - 1) / kNvfp4Block * kNvfp4Block;
      group.values = values.values + row * values.stride + col;
      group.cols = padded < kCols ? static_cast<int>(padded) : kCols;
      // Whole rows at a time: memory gives what lies together faster.
      for (std::int64_t i = col / kCols; i < kNvfp4Block; i += groups) {
        fetch<F>(values.ahead, row + i, 0, tile.cols.end - tile.cols.begin);
      }
      body(r, c, group);
    }
  }
}

/// Makes rounding ready for the elements of a group.
template <class F, class Rounding>
[[gnu::always_inline]] inline void seek_group(Rounding& rounding, std::int64_t row,
                                              std::int64_t col) {
  for (int i = 0; i < kNvfp4Block; ++i) rounding.seek(i, row + i, col, BlockGroup<F>::kCols);
  rounding.finish_seek();
}

/// Columnwise, blocks along the columns of whole blocks of rows.
template <class F, class Rounding>
[[gnu::flatten]] void cast_nvfp4_columns(const BlockCast& cast, Tile tile, TileValues values) {
  const ColumnStage<F> stage(values);
  Rounding rounding(cast, Usage::columnwise);
  for_each_group<F>(tile, values, [&](std::int64_t r, std::int64_t c, BlockGroup<F>& group) {
    const std::int64_t block = r / kNvfp4Block % kNvfp4BandBlocks;
    const std::int64_t col = c - tile.cols.begin;
    seek_group<F>(rounding, r, c);
    group.prepare(cast.output->hadamard, false);
    group.scale(Nvfp4Scales{cast.columnwise});
    __builtin_memcpy(stage.scale(block, col), group.scales, static_cast<std::size_t>(group.cols));
    group.cast_columns(rounding, stage.block(block, col), ColumnStage<F>::kColumnBytes);
  });
}

/// Both usages, blocks of 16 x 16.
template <class F, class Rounding>
[[gnu::flatten]] void cast_nvfp4_squares(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  const Nvfp4Part<F> rowwise(output.rowwise, cast.cols);
  const Nvfp4Part<F> columnwise(output.columnwise, cast.rows);
  const ColumnStage<F> stage(values);
  Rounding row_rounding(cast, Usage::rowwise), column_rounding(cast, Usage::columnwise);
  for_each_group<F>(tile, values, [&](std::int64_t r, std::int64_t c, BlockGroup<F>& group) {
    const std::int64_t row_block = r / kNvfp4Block, col_block = c / kNvfp4Block;
    const int blocks = group.cols / kNvfp4Block;
    group.prepare(false, true);
    if (rowwise.data != nullptr) {
      seek_group<F>(row_rounding, r, c);
      group.scale(Nvfp4Scales{cast.rowwise});
      std::uint8_t* const scales = rowwise.scale_inv + row_block * rowwise.row_blocks + col_block;
      for (int b = 0; b < blocks; ++b) scales[b] = group.scales[b * kNvfp4Block];
      const std::int64_t rows = tile.rows.end - r < kNvfp4Block ? tile.rows.end - r : kNvfp4Block;
      group.cast_rows(row_rounding, rows, rowwise.block(r, col_block), rowwise.row_bytes());
    }
    if (columnwise.data != nullptr) {
      seek_group<F>(column_rounding, r, c);
      group.scale(Nvfp4Scales{cast.columnwise});
      std::uint8_t* const scales = columnwise.scale_inv + row_block;
      for (int b = 0; b < blocks; ++b) {
        scales[(col_block + b) * columnwise.row_blocks] = group.scales[b * kNvfp4Block];
      }
      group.cast_columns(column_rounding,
                         stage.block(row_block % kNvfp4BandBlocks, c - tile.cols.begin),
                         ColumnStage<F>::kColumnBytes);
    }
  });
}

/// Writes out a tile's columns.
template <class F>
void end_nvfp4_rows(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  const ColumnStage<F> stage(values);
  const Nvfp4Part<F> part(output.columnwise, cast.rows);
  const std::int64_t first = tile.rows.begin / kNvfp4Block;
  const std::int64_t blocks = (tile.rows.end - tile.rows.begin + kNvfp4Block - 1) / kNvfp4Block;
  for (std::int64_t c = 0; c < tile.cols.end - tile.cols.begin; ++c) {
    const std::int64_t col = tile.cols.begin + c;
    __builtin_memcpy(part.block(col, first), stage.block(0, c),
                     static_cast<std::size_t>(blocks * kNvfp4BlockBytes));
    if (output.scaling_mode == ScalingMode::nvfp4_2d) continue;
    std::uint8_t* const scales = part.scale_inv + col * part.row_blocks + first;
    for (std::int64_t b = 0; b < blocks; ++b) scales[b] = *stage.scale(b, c);
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
