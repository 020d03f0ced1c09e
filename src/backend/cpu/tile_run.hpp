#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backend/cpu/kernels.hpp"
#include "backend/cpu/run.hpp"

namespace tape8::cpu {

// How a matrix goes by tiles from the op that computes it to a block-scaled output. A tile is a
// band of whole blocks of rows, of as many columns as the second-level cache holds. Its rows are
// computed some at a time, are cast rowwise while the first level still holds them, and columnwise
// when the band is complete.

inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

/// A [rows, cols] matrix cut into bands of rows, and these into tiles.
struct TileGrid {
  std::int64_t rows = 0, cols = 0;
  std::int64_t band_rows = 1, tile_cols = 1;

  std::int64_t band_tiles() const { return divide_up(cols, tile_cols); }
  std::int64_t tiles() const { return divide_up(rows, band_rows) * band_tiles(); }
  Tile tile(std::int64_t i) const {
    const std::int64_t row = i / band_tiles() * band_rows;
    const std::int64_t col = i % band_tiles() * tile_cols;
    return {{row, std::min(row + band_rows, rows)}, {col, std::min(col + tile_cols, cols)}};
  }
};

/// Where an op puts the values of some rows of a tile: those of its part p, of a gated activation's
/// gradient, at values + p * part_offset.
struct TileRows {
  Tile tile;
  TileValues values;
  std::int64_t part_offset;
};

/// What an op can compute at a time: any rows and columns, whole rows, or whole blocks of 16 rows.
enum class TileForm { any, whole_rows, row_blocks };

/// An op's [rows, parts * cols] matrix of f32 values on its way to the output.
class TileRun {
 public:
  /// Writes nvfp4's tensor_scale_inv.
  TileRun(const KernelSet& set, std::int64_t rows, std::int64_t cols, std::int64_t parts,
          TileForm form, const Output& output, Amax* hadamard_amax = nullptr);

  /// Calls produce(TileRows, sums) for all rows of all tiles, a tile's in ascending order; the sums
  /// become dbias, [parts * cols], unless it is null.
  template <class Produce>
  void operator()(double element_cost, Stat* dbias, const Produce& produce) const {
    if (hadamard_amax_ != nullptr) *hadamard_amax_ = {};
    run_tiles(element_cost, dbias, produce);
    finish_amax(hadamard_amax_);
  }

 private:
  template <class Produce>
  void run_tiles(double element_cost, Stat* dbias, const Produce& produce) const {
    const auto run_range = [&](Range tiles, float* sums) {
      AmaxBits amax = 0;
      for (std::int64_t i = tiles.begin; i < tiles.end; ++i) {
        const Tile tile = grid_.tile(i);
        const TileRows all = memory(tile);
        for (std::int64_t row = tile.rows.begin; row < tile.rows.end; row += strip_rows_) {
          const TileRows strip = rows_of(all, row);
          produce(strip, sums);
          amax = std::max(amax, take_rows(strip));
        }
        take_band(all);
      }
      return amax;
    };
    if (dbias == nullptr) {
      const auto tile_size = static_cast<double>(grid_.band_rows * grid_.tile_cols * parts_);
      return run(output_.amax, grid_.tiles(), element_cost * tile_size,
                 [&](Range tiles) { return run_range(tiles, nullptr); });
    }
    const std::int64_t all_cols = parts_ * grid_.cols;
    run_with_sums<1>(
        output_.amax, grid_.rows, all_cols, element_cost * static_cast<double>(all_cols), {dbias},
        [&](Range rows, const std::array<float*, 1>& sums) {
          std::fill_n(sums[0], all_cols + kSumPadding, 0.0F);
          const Range bands{rows.begin / grid_.band_rows, divide_up(rows.end, grid_.band_rows)};
          return run_range({bands.begin * grid_.band_tiles(), bands.end * grid_.band_tiles()},
                           sums[0]);
        },
        grid_.band_rows);
  }

  /// Memory of the calling thread for a tile.
  TileRows memory(const Tile& tile) const;
  /// The tile's rows from `row` on that are computed at a time.
  TileRows rows_of(const TileRows& tile, std::int64_t row) const;
  /// Passes rows on; returns their amax where the output wants it.
  AmaxBits take_rows(const TileRows& rows) const;
  void take_band(const TileRows& tile) const;
  /// Calls take(tile of the output, values) for each part of a tile that is a tile for itself.
  template <class Take>
  void for_each_part(const TileRows& rows, const Take& take) const;

  const KernelSet& set_;
  Output output_;
  Amax* hadamard_amax_;
  std::int64_t parts_;
  TileGrid grid_;
  BlockCast cast_;
  std::int64_t block_cols_ = 16;  // that make whole blocks
  std::int64_t strip_rows_ = 1;   // computed at a time
  bool parts_apart_ = true;       // each part has tiles of its own
  bool keeps_band_ = false;       // all rows of a tile are needed at once
  bool notes_columns_ = false;    // the amaxes of columns are needed
};

}  // namespace tape8::cpu
