#pragma once

#include <cstdint>

#include "backend/cpu/cast_kernels.hpp"

namespace tape8::cpu {

// The ends of an op that goes by tiles: values read, sums taken, values stored without blocks.

/// sums[i] += the tile's column i, over ascending rows.
template <class F>
[[gnu::flatten]] void add_rows(TileValues tile, std::int64_t rows, int count, float* sums) {
  for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
    V sum = V::load(sums + i);
    for (std::int64_t r = 0; r < rows; ++r) sum = sum + V::load(tile.values + r * tile.stride + i);
    sum.store(sums + i);
  });
}

template <class F>
void cast_tile(const CastArgs& args, Tile tile, TileValues to, float* dbias) {
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const auto count = static_cast<int>(tile.cols.end - tile.cols.begin);
  visit_format(args.x.dtype, [&]<class From>() {
    const auto* from = static_cast<const typename From::Storage*>(args.x.data) +
                       tile.rows.begin * args.cols + tile.cols.begin;
    for (std::int64_t r = 0; r < rows; ++r) {
      convert<F, From, F32Format, false>(from + r * args.cols, to.values + r * to.stride, count,
                                         factor<F>(args.x.scale_inv), 1.0F);
    }
  });
  if (dbias == nullptr) return;
  for (std::int64_t r = 0; r < rows; ++r) fill_tail<F>(to.values + r * to.stride, count, 0.0F);
  add_rows<F>(to, rows, count, dbias + tile.cols.begin);
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
