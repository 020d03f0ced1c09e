#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backend/cpu/kernels.hpp"
#include "backend/cpu/run.hpp"

namespace tape8::cpu {

// How a matrix goes by tiles from the op that computes it to a block-scaled output. A tile is a
// band of whole blocks of rows, of as many columns as a near cache holds. Its rows are computed a
// strip at a time, as f32, and cast rowwise while the first-level cache still holds them. FP8 is
// cast columnwise when all rows have shown their amaxes: from values that were kept, or, where that
// is cheaper, are computed again.

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

/// What an op is asked for: some rows of a tile.
struct TileRows {
  Tile tile;
  TileValues values;         // where they go
  std::int64_t part_offset;  // part p of a gated activation's gradient: at values + p * part_offset
  Normalizer* normalizers;   // one a row, for a norm to keep until rows come again
  bool again;                // these rows have been computed before
  Tile next;                 // what is fetched while they are cast; may be empty
};

/// A matrix [rows, parts * cols] that an op reads, element (r, c) of each part for its own (r, c).
struct TileInput {
  const Input* x = nullptr;
  std::int64_t parts = 1;
};

/// How an op computes its values.
struct TileTraits {
  std::int64_t parts = 1;   // its values are [rows, parts * cols]
  bool whole_rows = false;  // a row depends on all of its columns
  bool row_blocks = false;  // 16 rows at a time
  bool repeatable = false;  // computing twice costs less than keeping more than a near cache holds
  std::array<TileInput, 2> inputs = {};
};

/// An op's f32 values on their way to the output.
class TileRun {
 public:
  /// Writes nvfp4's tensor_scale_inv.
  TileRun(const KernelSet& set, std::int64_t rows, std::int64_t cols, const TileTraits& traits,
          const Output& output, Amax* hadamard_amax = nullptr);

  /// Calls produce(TileRows, sums) for all rows of all tiles, a tile's in ascending order. The sums
  /// become dbias, [parts * cols]; they are null where it is, and where rows come again.
  template <class Produce>
  void operator()(double element_cost, Stat* dbias, const Produce& produce) const {
    if (hadamard_amax_ != nullptr) *hadamard_amax_ = {};
    const std::int64_t all_cols = traits_.parts * grid_.cols;
    if (dbias == nullptr) {
      const auto size = static_cast<double>(grid_.band_rows * grid_.tile_cols * traits_.parts);
      run(output_.amax, grid_.tiles(), element_cost * size,
          [&](Range tiles) { return run_tiles(tiles, nullptr, produce); });
    } else {
      run_with_sums<1>(
          output_.amax, grid_.rows, all_cols, element_cost * static_cast<double>(all_cols), {dbias},
          [&](Range rows, const RowSums<1>& sums) {
            for (std::int64_t row = rows.begin; row < rows.end; row += sums.block_rows) {
              std::fill_n(sums.of(row)[0], all_cols + kSumPadding, 0.0F);
            }
            const Range tiles{rows.begin / grid_.band_rows * grid_.band_tiles(),
                              divide_up(rows.end, grid_.band_rows) * grid_.band_tiles()};
            return run_tiles(tiles, &sums, produce);
          },
          grid_.band_rows);
    }
    finish_amax(hadamard_amax_);
  }

 private:
  template <class Produce>
  AmaxBits run_tiles(Range tiles, const RowSums<1>* sums, const Produce& produce) const {
    AmaxBits amax = 0;
    for (std::int64_t i = tiles.begin; i < tiles.end; ++i) {
      TileRows tile = memory(grid_.tile(i));
      const Tile next = i + 1 < tiles.end ? grid_.tile(i + 1) : Tile{};
      for_each_strip(tile, next, [&](const TileRows& strip) {
        produce(strip, sums == nullptr ? nullptr : sums->of(strip.tile.rows.begin)[0]);
        amax = std::max(amax, take_rows(strip));
      });
      const bool finite = end_rows(tile);
      if (!casts_columns_) continue;
      tile.again = true;
      for_each_strip(tile, next, [&](const TileRows& strip) {
        if (!keeps_tile_) produce(strip, nullptr);
        take_columns(strip, finite);
      });
    }
    return amax;
  }

  template <class Body>
  void for_each_strip(const TileRows& tile, const Tile& next, const Body& body) const {
    const Range rows = tile.tile.rows;
    for (std::int64_t row = rows.begin; row < rows.end; row += strip_rows_) {
      body(rows_of(tile, row, next));
    }
  }

  /// Memory of the calling thread for a tile.
  TileRows memory(const Tile& tile) const;
  /// The tile's rows from `row` on that are computed at a time; `next` is the tile that follows.
  TileRows rows_of(const TileRows& tile, std::int64_t row, const Tile& next) const;
  /// Passes rows on; returns their amax where the output wants it.
  AmaxBits take_rows(const TileRows& strip) const;
  /// All rows have been taken; returns whether the amaxes of columns are finite.
  bool end_rows(const TileRows& tile) const;
  /// Passes rows on to the columnwise cast.
  void take_columns(const TileRows& rows, bool finite) const;
  /// Calls take(tile of the output, values) for each part of rows that has tiles of its own.
  template <class Take>
  void for_each_part(const TileRows& rows, const Take& take) const;
  /// What is fetched while part p of the values is cast.
  Ahead ahead_of(const Tile& next, std::int64_t p) const;

  const KernelSet& set_;
  Output output_;
  Amax* hadamard_amax_;
  TileTraits traits_;
  TileGrid grid_;
  BlockCast cast_;
  std::int64_t block_cols_ = 16;  // that make whole blocks
  std::int64_t strip_rows_ = 1;
  bool parts_apart_ = true;      // each part has tiles of its own
  bool casts_columns_ = false;   // after all rows have been taken
  bool keeps_tile_ = false;      // all values of a tile
  bool stages_columns_ = false;  // nvfp4's columnwise codes, on their way
};

}  // namespace tape8::cpu
