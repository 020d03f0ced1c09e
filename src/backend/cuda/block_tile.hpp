#pragma once

#include <cstdint>

#include "backend/cuda/flat.hpp"

namespace tape8::cuda {

// Casts with block scales take a matrix in tiles of 128 x 128 values, which threads keep in
// registers. A warp has 16 rows of its tile, a lane 4 of these and a vector of 16 columns: lanes 0
// to 7 have the same rows, lanes 8 apart the same columns. So every block lies in a tile, and
// nvfp4's in a warp.

inline constexpr int kTile = 128;
inline constexpr int kTileWarps = 8;
inline constexpr int kTileThreads = kTileWarps * kWarp;
inline constexpr int kTileVectors = kTile / kVector;  // lanes of the same rows
inline constexpr int kLaneRows = 4;
inline constexpr int kWarpRows = 16;

/// The calling thread's part of the tile that begins at (row, col) of a matrix [rows, cols].
struct TilePart {
  std::int64_t rows = 0, cols = 0;
  std::int64_t tile_row = 0, tile_col = 0;

  __device__ int warp() const { return static_cast<int>(threadIdx.x / kWarp); }
  __device__ int vector() const { return static_cast<int>(threadIdx.x % kTileVectors); }
  /// Which of the four lanes with the same columns.
  __device__ int quarter() const { return static_cast<int>(threadIdx.x % kWarp / kTileVectors); }
  /// Of the part's first value.
  __device__ std::int64_t row() const { return tile_row + threadIdx.x / kTileVectors * kLaneRows; }
  __device__ std::int64_t col() const { return tile_col + vector() * kVector; }
  /// In the tile: the first of the lane's four columns after transpose() or reduce_columns().
  __device__ int quarter_col() const { return vector() * kVector + quarter() * (kVector / 4); }
  /// Values of the part's row j that the matrix has.
  __device__ int count(int j) const {
    const std::int64_t left = row() + j < rows ? cols - col() : 0;
    return left < 0 ? 0 : left < kVector ? static_cast<int>(left) : kVector;
  }
};

/// Of two lanes so many apart, each with (a, b), the lower one gets both a, the upper one both b.
template <class T>
__device__ void exchange(T& a, T& b, unsigned lanes) {
  const bool upper = (threadIdx.x & lanes) != 0;
  const T taken = __shfl_xor_sync(0xFFFFFFFFU, upper ? a : b, static_cast<int>(lanes));
  a = upper ? taken : a;
  b = upper ? b : taken;
}

/// Makes columns of rows: lane q of the four with the same columns gets the q-th quarter of them,
/// with all 16 rows (transposed()). Rows may be of kCount words of two values, too.
template <class T, int kCount>
__device__ void transpose(T (&x)[kLaneRows][kCount]) {
  TAPE8_UNROLL
  for (int j = 0; j < kLaneRows; ++j) {
    TAPE8_UNROLL
    for (int i = 0; i < kCount / 2; ++i) exchange(x[j][i], x[j][i + kCount / 2], 2 * kTileVectors);
    TAPE8_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (i / (kCount / 4) % 2 == 0) exchange(x[j][i], x[j][i + kCount / 4], kTileVectors);
    }
  }
}

/// Then the value of row r in the i-th of the lane's columns.
template <class T, int kCount>
__device__ T transposed(const T (&x)[kLaneRows][kCount], int r, int i) {
  return x[r % kLaneRows][r / kLaneRows * (kCount / 4) + i];
}

/// Reduces each column over the four lanes that have it: x[0] to x[3] become the results of a
/// quarter of them, as in transpose(). Always in the same order.
template <class T, class Operation>
__device__ void reduce_columns(T (&x)[kVector], const Operation& operation) {
  TAPE8_UNROLL
  for (int i = 0; i < 8; ++i) {
    exchange(x[i], x[i + 8], 2 * kTileVectors);
    x[i] = operation(x[i], x[i + 8]);
  }
  TAPE8_UNROLL
  for (int i = 0; i < 4; ++i) {
    exchange(x[i], x[i + 4], kTileVectors);
    x[i] = operation(x[i], x[i + 4]);
  }
}

inline __device__ std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }

/// The largest of `lanes` lanes, `step` apart, in each of them.
inline __device__ std::uint32_t largest_of_lanes(std::uint32_t bits, int lanes, int step = 1) {
  for (int offset = step; offset < lanes * step; offset *= 2) {
    bits = larger(bits, __shfl_xor_sync(0xFFFFFFFFU, bits, offset));
  }
  return bits;
}

/// The largest |value|, as bits.
template <int N>
__device__ std::uint32_t largest_bits(const float (&x)[N]) {
  std::uint32_t bits = 0;
  TAPE8_UNROLL
  for (int i = 0; i < N; ++i) bits = larger(bits, amax_bits(x[i]));
  return bits;
}

inline __device__ std::uint32_t largest_bits(const float (&x)[kLaneRows][kVector]) {
  std::uint32_t bits = 0;
  TAPE8_UNROLL
  for (int j = 0; j < kLaneRows; ++j) bits = larger(bits, largest_bits(x[j]));
  return bits;
}

}  // namespace tape8::cuda
