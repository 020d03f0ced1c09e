#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cuda/block_tile.hpp"
#include "backend/cuda/fp8_blocks.hpp"
#include "backend/cuda/map_values.hpp"
#include "backend/cuda/nvfp4_blocks.hpp"

namespace tape8::cuda {

// map_values with block scales: both usages in one pass over a producer's inputs.

/// The tiles of a matrix. Those of one place in all parts follow each other, and so find what they
/// read in the cache, where parts are whole tiles.
struct TileGrid {
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_tiles = 0, col_tiles = 0;
  std::int64_t parts = 1, part_cols = 0;
  bool parts_apart = true;  // no vector reaches into two

  static TileGrid of(std::int64_t rows, std::int64_t cols, std::int64_t parts) {
    TileGrid grid{.rows = rows, .cols = cols, .parts = parts, .part_cols = cols / parts};
    grid.row_tiles = divide_up(rows, std::int64_t{kTile});
    grid.col_tiles = divide_up(cols, std::int64_t{kTile});
    grid.parts_apart = parts == 1 || grid.part_cols % kVector == 0;
    return grid;
  }
  /// Of block `tile` of the kernel's grid.
  __device__ TilePart part(std::int64_t tile) const {
    if (row_tiles * col_tiles == 0) return {};
    const std::int64_t place = tile % col_tiles;
    const bool by_parts = part_cols % kTile == 0;
    const std::int64_t col =
        by_parts ? place % parts * part_cols + place / parts * kTile : place * kTile;
    return {rows, cols, tile / col_tiles * kTile, col};
  }
};

// A producer may have, beside values() or instead,
//
//   __device__ void rows(std::int64_t row, std::int64_t col, const int (&counts)[kLaneRows],
//                        float (&out)[kLaneRows][kVector]) const;
//
// whose reads go together. The code of values(), which may be long, is there once a kernel; what it
// gives goes through memory of the thread.

/// Moves x[0] to x[places], and so on.
inline __device__ void shift_up(float (&x)[kVector], int places) {
  TAPE8_UNROLL
  for (int bit = 3; bit >= 0; --bit) {
    const int step = 1 << bit;
    TAPE8_UNROLL
    for (int i = kVector - 1; i >= step; --i) x[i] = (places & step) != 0 ? x[i - step] : x[i];
  }
}

/// Values of a vector that may reach from one part into the next.
template <class Producer>
__device__ void load_across_parts(const Producer& producer, const TileGrid& grid, std::int64_t row,
                                  std::int64_t col, int count, float (&out)[kVector]) {
  for (int done = 0; done < count;) {
    const std::int64_t left =
        grid.parts_apart ? count : grid.part_cols - (col + done) % grid.part_cols;
    const int some = left < count - done ? static_cast<int>(left) : count - done;
    float piece[kVector];
    producer.values(row, col + done, some, piece);
    if (done > 0) shift_up(piece, done);
    TAPE8_UNROLL
    for (int i = 0; i < kVector; ++i) out[i] = i < done ? out[i] : piece[i];
    done += some;
  }
}

/// The calling thread's values; zeros past the matrix.
template <class Producer>
__device__ void load_part(const Producer& producer, const TileGrid& grid, const TilePart& part,
                          float (&x)[kLaneRows][kVector]) {
  if constexpr (requires(const int(&counts)[kLaneRows]) { producer.rows(0, 0, counts, x); }) {
    const int counts[kLaneRows] = {part.count(0), part.count(1), part.count(2), part.count(3)};
    producer.rows(part.row(), part.col(), counts, x);
  } else {
    float rows[kLaneRows][kVector];
    TAPE8_NO_UNROLL
    for (int j = 0; j < kLaneRows; ++j) {
      load_across_parts(producer, grid, part.row() + j, part.col(), part.count(j), rows[j]);
    }
    memcpy(x, rows, sizeof(rows));
  }
  TAPE8_UNROLL
  for (int j = 0; j < kLaneRows; ++j) {
    TAPE8_UNROLL
    for (int i = 0; i < kVector; ++i) x[j][i] = i < part.count(j) ? x[j][i] : 0.0F;
  }
}

/// Writes the sums of the tile's columns, rows in ascending order by lanes and then by warps.
inline __device__ void sum_columns(const TilePart& part, const float (&x)[kLaneRows][kVector],
                                   float (&sums)[kTileWarps][kTile], float* to) {
  float own[kVector];
  TAPE8_UNROLL
  for (int i = 0; i < kVector; ++i) own[i] = x[0][i] + x[1][i] + x[2][i] + x[3][i];
  reduce_columns(own, [](float a, float b) { return a + b; });
  TAPE8_UNROLL
  for (int i = 0; i < kVector / 4; ++i) {
    sums[part.warp()][part.quarter_col() + i] = own[i];
  }
  __syncthreads();
  const auto col = static_cast<int>(threadIdx.x);
  if (col >= kTile || part.tile_col + col >= part.cols) return;
  float sum = 0.0F;
  for (int w = 0; w < kTileWarps; ++w) sum += sums[w][col];
  to[part.tile_row / kTile * part.cols + part.tile_col + col] = sum;
}

/// Bytes a value: those of the producer's inputs and of the result. A block has a tile.
template <class Blocks, class Producer>
__global__ void block_kernel(Producer producer, TileGrid grid, Blocks blocks, Amax* amax,
                             float* partials) {
  TAPE8_SHARED(typename Blocks::Shared, shared);
  TAPE8_SHARED(float, sums, [kTileWarps][kTile]);
  if (blockIdx.x == 0) blocks.begin();
  const TilePart part = grid.part(blockIdx.x);
  float x[kLaneRows][kVector];
  load_part(producer, grid, part, x);
  if (amax != nullptr) note_amax(amax, largest_bits(x));
  if (partials != nullptr) sum_columns(part, x, sums, partials);
  blocks.cast(part, x, shared);
}

/// Has a matrix [rows, cols] cast by tiles; amax and dbias may be null.
template <class Blocks, class Producer>
void map_tiles(Context& context, std::int64_t rows, std::int64_t cols, const Producer& producer,
               const Blocks& blocks, Amax* amax, Stat* dbias) {
  clear_amax(amax, context.stream());
  const TileGrid grid = TileGrid::of(rows, cols, producer.parts);
  const bool sums = dbias != nullptr;
  const Workspace partials(
      context, sums ? sizeof(float) * static_cast<std::size_t>(grid.row_tiles * cols) : 0);
  const std::int64_t tiles = std::max<std::int64_t>(grid.row_tiles * grid.col_tiles, 1);
  launch(block_kernel<Blocks, Producer>,
         {.grid = dim3(static_cast<unsigned>(tiles)),
          .block = dim3(kTileThreads),
          .stream = context.stream()},
         producer, grid, blocks, amax, sums ? partials.as<float>() : nullptr);
  if (sums) {
    add_groups<float>(context, {kTile, grid.row_tiles}, cols, partials.as<float>(), dbias);
  }
}

/// map_values for a y with block scales.
template <class Producer>
void map_blocks(Context& context, std::int64_t rows, std::int64_t cols, const Producer& producer,
                const Output& y, Stat* dbias = nullptr) {
  const BlockOutput& blocks = *y.blocks;
  const auto map = [&](const auto& format) {
    map_tiles(context, rows, cols, producer, format, y.amax, dbias);
  };
  if (!is_nvfp4(blocks.scaling_mode)) {
    map(Fp8Blocks(blocks));
  } else if (blocks.rounding == nullptr) {
    map(Nvfp4Blocks<false>(blocks));
  } else {
    map(Nvfp4Blocks<true>(blocks));
  }
}

/// map_values, with block scales where y has them.
template <class Real, class Producer>
void map_values_or_blocks(Context& context, std::int64_t rows, std::int64_t cols,
                          const Producer& producer, const Output& y, Stat* dbias = nullptr) {
  if (y.blocks == nullptr) return map_values<Real>(context, rows, cols, producer, y, dbias);
  map_blocks(context, rows, cols, producer, y, dbias);
}

}  // namespace tape8::cuda
