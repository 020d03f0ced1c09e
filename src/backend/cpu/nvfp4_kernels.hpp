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
  constexpr int kReadyBlocks = 16;
  const Nvfp4Part part = nvfp4_part<F>(cast.output->rowwise, cast.cols);
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const std::int64_t first_block = tile.cols.begin / kNvfp4Block;
  const std::int64_t blocks = (tile.cols.end - tile.cols.begin + kNvfp4Block - 1) / kNvfp4Block;
  const std::int64_t first = tile.rows.begin * part.row_blocks + first_block;
  Rounding rounding(cast, Usage::rowwise);
  for_each_row_block<F, kNvfp4Block>(
      Nvfp4Scales{cast.rowwise}, rows, blocks * kNvfp4Block, values, part.scale_inv + first,
      part.row_blocks, [&](const BlockCursor<F, kNvfp4Block>& at, float multiplier) {
        const auto place = static_cast<int>(at.block() % kReadyBlocks);
        if (place == 0) {
          const std::int64_t ready =
              blocks - at.block() < kReadyBlocks ? blocks - at.block() : kReadyBlocks;
          rounding.seek(0, tile.rows.begin + at.row(), tile.cols.begin + at.block() * kNvfp4Block,
                        static_cast<int>(ready) * kNvfp4Block);
        }
        const F x = F::load(at.values()) * F(multiplier);
        const std::int64_t block = first + at.row() * part.row_blocks + at.block();
        rounding.codes(x, place * kNvfp4Block).store_u4(part.data + block * kNvfp4BlockBytes);
      });
}

/// A band's columns on their way to where each is a row of its own: kCols of them at a time.
template <class F, class Rounding>
class ColumnStage {
 public:
  static constexpr int kCols = 64;

  explicit ColumnStage(const BlockCast& cast)
      : part_(nvfp4_part<F>(cast.output->columnwise, cast.rows)),
        rounding_(cast, Usage::columnwise) {}

  /// Makes ready for blocks that begin in this row, of columns from `col` on.
  [[gnu::always_inline]] void seek(std::int64_t row, std::int64_t col) {
    for (int r = 0; r < kNvfp4Block; ++r) rounding_.seek(r * kCols, row + r, col, kCols);
  }
  std::uint8_t* scales(int block, int col) { return scales_[block] + col; }

  /// Takes the blocks of sixteen columns.
  [[gnu::always_inline]] void put(const Square<F>& x, const F& multipliers, int block, int col) {
    using Int = typename F::Int;
    Int low(0), high(0);
    for (int r = 0; r < kNvfp4Block / 2; ++r) {
      const auto shift = static_cast<unsigned>(4 * r);
      low = low | (codes(x, multipliers, r, col) << shift);
      high = high | (codes(x, multipliers, r + kNvfp4Block / 2, col) << shift);
    }
    float words[2][F::kLanes];  // of bits
    F::from_bits(low).store(words[0]);
    F::from_bits(high).store(words[1]);
    for (int lane = 0; lane < F::kLanes; ++lane) {
      std::uint8_t* const to = data_[col + lane] + block * kNvfp4BlockBytes;
      __builtin_memcpy(to, words[0] + lane, sizeof(float));
      __builtin_memcpy(to + sizeof(float), words[1] + lane, sizeof(float));
    }
  }

  /// Writes what was put of columns [col, col + cols), blocks from `block` on.
  void flush(std::int64_t col, std::int64_t cols, std::int64_t block, std::int64_t blocks,
             bool with_scales) const {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t first = (col + c) * part_.row_blocks + block;
      __builtin_memcpy(part_.data + first * kNvfp4BlockBytes, data_[c],
                       static_cast<std::size_t>(blocks * kNvfp4BlockBytes));
      for (std::int64_t b = 0; with_scales && b < blocks; ++b) {
        part_.scale_inv[first + b] = scales_[b][c];
      }
    }
  }

 private:
  [[gnu::always_inline]] typename F::Int codes(const Square<F>& x, const F& multipliers, int r,
                                               int col) const {
    return rounding_.codes(x.row[r] * multipliers, r * kCols + col);
  }

  Nvfp4Part part_;
  Rounding rounding_;
  alignas(64) std::uint8_t data_[kCols][kNvfp4BandBlocks * kNvfp4BlockBytes];
  std::uint8_t scales_[kNvfp4BandBlocks][kCols];
};

/// Columnwise, blocks along the columns of a band.
template <class F, class Rounding>
[[gnu::flatten]] void cast_nvfp4_columns(const BlockCast& cast, Tile tile, TileValues values) {
  using Stage = ColumnStage<F, Rounding>;
  const Nvfp4Scales scales{cast.columnwise};
  const bool hadamard = cast.output->hadamard;
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  const auto blocks =
      static_cast<int>((tile.rows.end - tile.rows.begin + kNvfp4Block - 1) / kNvfp4Block);
  Stage stage(cast);
  for (std::int64_t first = 0; first < width; first += Stage::kCols) {
    const std::int64_t cols = width - first < Stage::kCols ? width - first : Stage::kCols;
    for (int b = 0; b < blocks; ++b) {
      stage.seek(tile.rows.begin + b * kNvfp4Block, tile.cols.begin + first);
      for (int c = 0; c < cols; c += F::kLanes) {
        Square<F> x;
        x.load(values.values + b * kNvfp4Block * values.stride + first + c, values.stride);
        if (hadamard) hadamard_transform(x);
        stage.put(x, scales.template operator()<F>(x.column_amax(), stage.scales(b, c), F::kLanes),
                  b, c);
      }
    }
    stage.flush(tile.cols.begin + first, cols, tile.rows.begin / kNvfp4Block, blocks, true);
  }
}

/// Both usages, blocks of 16 x 16.
template <class F, class Rounding>
[[gnu::flatten]] void cast_nvfp4_squares(const BlockCast& cast, Tile tile, TileValues values) {
  using Stage = ColumnStage<F, Rounding>;
  using Int = typename F::Int;
  const BlockOutput& output = *cast.output;
  const Nvfp4Part rowwise = nvfp4_part<F>(output.rowwise, cast.cols);
  const Nvfp4Part columnwise = nvfp4_part<F>(output.columnwise, cast.rows);
  const Nvfp4Scales row_scales{cast.rowwise}, column_scales{cast.columnwise};
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  const auto blocks =
      static_cast<int>((tile.rows.end - tile.rows.begin + kNvfp4Block - 1) / kNvfp4Block);
  Rounding rounding(cast, Usage::rowwise);
  Stage stage(cast);
  for (std::int64_t first = 0; first < width; first += Stage::kCols) {
    const std::int64_t cols = width - first < Stage::kCols ? width - first : Stage::kCols;
    for (int b = 0; b < blocks; ++b) {
      const std::int64_t row = tile.rows.begin + b * kNvfp4Block;
      const std::int64_t rows =
          tile.rows.end - row < kNvfp4Block ? tile.rows.end - row : kNvfp4Block;
      if (output.columnwise.data != nullptr) stage.seek(row, tile.cols.begin + first);
      for (int c = 0; c < cols; c += F::kLanes) {
        const std::int64_t col = tile.cols.begin + first + c;
        const std::int64_t row_block = row / kNvfp4Block, col_block = col / kNvfp4Block;
        Square<F> x;
        x.load(values.values + b * kNvfp4Block * values.stride + first + c, values.stride);
        const Int amax(reduce_max(x.column_amax()));
        if (output.rowwise.data != nullptr) {
          const std::int64_t at = row_block * rowwise.row_blocks + col_block;
          const F multiplier = row_scales.template operator()<F>(amax, rowwise.scale_inv + at, 1);
          for (int r = 0; r < kNvfp4Block; ++r) {
            if (r >= rows) break;
            rounding.seek(0, row + r, col, kNvfp4Block);
            rounding.codes(x.row[r] * multiplier, 0)
                .store_u4(rowwise.data +
                          ((row + r) * rowwise.row_blocks + col_block) * kNvfp4BlockBytes);
          }
        }
        if (output.columnwise.data != nullptr) {
          const std::int64_t at = col_block * columnwise.row_blocks + row_block;
          stage.put(x, column_scales.template operator()<F>(amax, columnwise.scale_inv + at, 1), b,
                    c);
        }
      }
    }
    if (output.columnwise.data != nullptr) {
      stage.flush(tile.cols.begin + first, cols, tile.rows.begin / kNvfp4Block, blocks, false);
    }
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

/// What is cast as rows of a tile come: blocks along them.
template <class F>
void nvfp4_cast_rows(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  if (output.scaling_mode != ScalingMode::nvfp4_1d || output.rowwise.data == nullptr) return;
  if (output.rounding == nullptr) return cast_nvfp4_rows<F, RoundToNearest>(cast, tile, values);
  cast_nvfp4_rows<F, RoundStochastically>(cast, tile, values);
}

/// What is cast when a band is complete, zeros below it up to whole blocks.
template <class F>
void nvfp4_cast_band(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  const bool nearest = output.rounding == nullptr;
  if (output.scaling_mode == ScalingMode::nvfp4_2d) {
    if (nearest) return cast_nvfp4_squares<F, RoundToNearest>(cast, tile, values);
    return cast_nvfp4_squares<F, RoundStochastically>(cast, tile, values);
  }
  if (output.columnwise.data == nullptr) return;
  if (nearest) return cast_nvfp4_columns<F, RoundToNearest>(cast, tile, values);
  cast_nvfp4_columns<F, RoundStochastically>(cast, tile, values);
}

}  // namespace tape8::cpu
