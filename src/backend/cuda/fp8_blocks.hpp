#pragma once

#include <cstdint>

#include "backend/cuda/block_scales.hpp"
#include "backend/cuda/block_tile.hpp"

namespace tape8::cuda {

/// MXFP8 and Float8 block: both usages of a tile from a lane's values.
struct Fp8Blocks {
  struct Shared {
    std::uint32_t amaxes[kTileWarps][kTile];                  // of each warp's rows
    alignas(16) float multipliers[kTile / kWarpRows][kTile];  // of columns' blocks
  };

  ScalingMode mode;
  DType dtype;
  bool power_of_2_scale;
  BlockPart rowwise, columnwise;

  explicit Fp8Blocks(const BlockOutput& output)
      : mode(output.scaling_mode),
        dtype(output.dtype),
        power_of_2_scale(output.power_of_2_scale),
        rowwise(output.rowwise),
        columnwise(output.columnwise) {}

  __device__ void begin() const {}

  __device__ void cast(const TilePart& part, float (&x)[kLaneRows][kVector], Shared& shared) const {
    if (mode == ScalingMode::float8_block_2d) return cast_squares(part, x, shared);
    if (rowwise.data != nullptr) cast_rows(part, x);
    if (columnwise.data != nullptr) cast_columns(part, x, shared);
  }

 private:
  __device__ int block_size() const { return mode == ScalingMode::mxfp8_1d ? 32 : kTile; }

  __device__ Fp8BlockScale scale_of(std::uint32_t amax) const {
    const float largest = dtype == DType::e4m3 ? 448.0F : 57344.0F;
    if (mode == ScalingMode::mxfp8_1d) return mxfp8_scale(amax, largest);
    return float8_block_scale(amax, largest, power_of_2_scale);
  }

  __device__ void store_scale(const BlockPart& to, std::int64_t at,
                              const Fp8BlockScale& scale) const {
    if (mode == ScalingMode::mxfp8_1d) {
      static_cast<std::uint8_t*>(to.scale_inv)[at] = scale.code;
    } else {
      static_cast<float*>(to.scale_inv)[at] = scale.scale_inv;
    }
  }

  __device__ void store(const BlockPart& to, const TilePart& part, int j,
                        const float (&values)[kVector]) const {
    const std::int64_t at = (part.row() + j) * part.cols + part.col();
    if (dtype == DType::e4m3) {
      store_vector(static_cast<__nv_fp8_e4m3*>(to.data) + at, part.count(j), values);
    } else {
      store_vector(static_cast<__nv_fp8_e5m2*>(to.data) + at, part.count(j), values);
    }
  }

  __device__ void cast_rows(const TilePart& part, const float (&x)[kLaneRows][kVector]) const {
    const int lanes = block_size() / kVector;  // that have a block together
    const std::int64_t row_blocks = divide_up(part.cols, block_size());
    TAPE8_UNROLL
    for (int j = 0; j < kLaneRows; ++j) {
      const Fp8BlockScale scale = scale_of(largest_of_lanes(largest_bits(x[j]), lanes));
      if (part.count(j) > 0 && part.vector() % lanes == 0) {
        store_scale(rowwise, (part.row() + j) * row_blocks + part.col() / block_size(), scale);
      }
      float scaled[kVector];
      TAPE8_UNROLL
      for (int i = 0; i < kVector; ++i) scaled[i] = x[j][i] * scale.multiplier;
      store(rowwise, part, j, scaled);
    }
  }

  __device__ void cast_columns(const TilePart& part, const float (&x)[kLaneRows][kVector],
                               Shared& shared) const {
    std::uint32_t amaxes[kVector];
    TAPE8_UNROLL
    for (int i = 0; i < kVector; ++i) {
      const float column[kLaneRows] = {x[0][i], x[1][i], x[2][i], x[3][i]};
      amaxes[i] = largest_bits(column);
    }
    reduce_columns(amaxes, larger);
    TAPE8_UNROLL
    for (int i = 0; i < kVector / 4; ++i) {
      shared.amaxes[part.warp()][part.quarter_col() + i] = amaxes[i];
    }
    __syncthreads();
    make_column_scales(part, shared);
    __syncthreads();
    float multipliers[kVector];
    load_vector(
        shared.multipliers[part.warp() * kWarpRows / block_size()] + part.vector() * kVector,
        kVector, multipliers);
    TAPE8_UNROLL
    for (int j = 0; j < kLaneRows; ++j) {
      float scaled[kVector];
      TAPE8_UNROLL
      for (int i = 0; i < kVector; ++i) scaled[i] = x[j][i] * multipliers[i];
      store(columnwise, part, j, scaled);
    }
  }

  /// Of the blocks along the tile's columns, a thread each.
  __device__ void make_column_scales(const TilePart& part, Shared& shared) const {
    const int warps = block_size() / kWarpRows;  // that have a block together
    const int blocks = kTile / block_size();
    for (int i = static_cast<int>(threadIdx.x); i < blocks * kTile; i += kTileThreads) {
      const int block = i / kTile, col = i % kTile;
      std::uint32_t amax = 0;
      for (int w = block * warps; w < (block + 1) * warps; ++w) {
        amax = larger(amax, shared.amaxes[w][col]);
      }
      const Fp8BlockScale scale = scale_of(amax);
      shared.multipliers[block][col] = scale.multiplier;
      const std::int64_t row = part.tile_row + block * block_size();
      if (row < part.rows && part.tile_col + col < part.cols) {
        store_scale(columnwise, row / block_size() * part.cols + part.tile_col + col, scale);
      }
    }
  }

  /// A tile is one block, and the usages differ in nothing.
  __device__ void cast_squares(const TilePart& part, const float (&x)[kLaneRows][kVector],
                               Shared& shared) const {
    std::uint32_t* const amaxes = shared.amaxes[0];
    const std::uint32_t of_warp = largest_of_lanes(largest_bits(x), kWarp);
    if (threadIdx.x % kWarp == 0) amaxes[part.warp()] = of_warp;
    __syncthreads();
    std::uint32_t amax = 0;
    for (int w = 0; w < kTileWarps; ++w) amax = larger(amax, amaxes[w]);
    const Fp8BlockScale scale = scale_of(amax);
    if (rowwise.data != nullptr) store_square(rowwise, part, x, scale);
    if (columnwise.data != nullptr) store_square(columnwise, part, x, scale);
  }

  __device__ void store_square(const BlockPart& to, const TilePart& part,
                               const float (&x)[kLaneRows][kVector],
                               const Fp8BlockScale& scale) const {
    const std::int64_t row_blocks = divide_up(part.cols, std::int64_t{kTile});
    if (threadIdx.x == 0 && part.count(0) > 0) {
      store_scale(to, part.tile_row / kTile * row_blocks + part.tile_col / kTile, scale);
    }
    TAPE8_UNROLL
    for (int j = 0; j < kLaneRows; ++j) {
      float scaled[kVector];
      TAPE8_UNROLL
      for (int i = 0; i < kVector; ++i) scaled[i] = x[j][i] * scale.multiplier;
      store(to, part, j, scaled);
    }
  }
};

}  // namespace tape8::cuda
