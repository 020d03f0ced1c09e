#pragma once

#include <cstdint>

#include "backend/cpu/cast_kernels.hpp"

namespace tape8::cpu {

// The ends of an op that goes by tiles: values read, sums taken, values stored without blocks.

/// A tile of [.., cols].
template <class F>
void load_tile(const Input& x, std::int64_t cols, Tile tile, TileValues to) {
  const auto count = static_cast<int>(tile.cols.end - tile.cols.begin);
  visit_format(x.dtype, [&]<class From>() {
    const auto* from = static_cast<const typename From::Storage*>(x.data) + tile.rows.begin * cols +
                       tile.cols.begin;
    for (std::int64_t r = 0; r < tile.rows.end - tile.rows.begin; ++r) {
      convert<F, From, F32Format, false>(from + r * cols, to.values + r * to.stride, count,
                                         factor<F>(x.scale_inv), 1.0F);
    }
  });
}

/// Adds a tile's columns to the sums of the matrix's, over ascending rows.
template <class F>
[[gnu::flatten]] void sum_tile(Tile tile, TileValues values, float* sums) {
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const auto count = static_cast<int>(tile.cols.end - tile.cols.begin);
  for (std::int64_t r = 0; r < rows; ++r) {
    fill_tail<F>(values.values + r * values.stride, count, 0.0F);
  }
  for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
    float* const place = sums + tile.cols.begin + i;
    V sum = V::load(place);
    for (std::int64_t r = 0; r < rows; ++r) {
      sum = sum + V::load(values.values + r * values.stride + i);
    }
    sum.store(place);
  });
}

template <class F>
AmaxBits store_tile(const Output& y, std::int64_t cols, Tile tile, TileValues from) {
  const auto count = static_cast<int>(tile.cols.end - tile.cols.begin);
  AmaxBits amax = 0;
  for (std::int64_t r = tile.rows.begin; r < tile.rows.end; ++r) {
    float* row = from.values + (r - tile.rows.begin) * from.stride;
    amax = larger<F>(amax, store_block<F>(row, y, r * cols + tile.cols.begin, count));
  }
  return amax;
}

}  // namespace tape8::cpu
