#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/cast_kernels.hpp"
#include "backend/cpu/element_formats.hpp"
#include "backend/cpu/hadamard.hpp"
#include "backend/cpu/kernels.hpp"

namespace tape8::cpu {

// The values of block-scaled matrices: float(q) * the block's scale * the tensor's.

/// Scale `at` of those in memory.
template <class F>
float block_scale(const BlockInput& blocks, std::int64_t at) {
  const auto* bytes = static_cast<const std::uint8_t*>(blocks.scale_inv);
  switch (blocks.scaling_mode) {
    case ScalingMode::float8_block_1d:
    case ScalingMode::float8_block_2d:
      return static_cast<const float*>(blocks.scale_inv)[at];
    case ScalingMode::mxfp8_1d: {
      if (bytes[at] == 255) return __builtin_bit_cast(float, kNanBits);
      const std::int32_t bits = bytes[at] == 0 ? 0x400000 : std::int32_t{bytes[at]} << 23;
      return __builtin_bit_cast(float, bits);
    }
    default: {
      const std::uint8_t codes[F::kLanes] = {bytes[at]};
      float values[F::kLanes];
      E4m3Format::load<F>(codes).store(values);
      return values[0];
    }
  }
}

/// A part of the values that lie in memory in rows of `cols`, and how many of them share a scale.
struct ScaleGrid {
  std::int64_t cols;
  std::int64_t block_rows, block_cols;
};

/// The scales of `count` columns of a row, to the next whole vector.
template <class F>
[[gnu::flatten]] void load_scales(const BlockInput& blocks, const ScaleGrid& grid, std::int64_t r,
                                  std::int64_t c, int count, float* scales) {
  const std::int64_t first =
      r / grid.block_rows * ((grid.cols + grid.block_cols - 1) / grid.block_cols);
  if (grid.block_cols == 1) {
    for (int i = 0; i < count; ++i) scales[i] = block_scale<F>(blocks, first + c + i);
    return fill_tail<F>(scales, count, 1.0F);
  }
  for (int i = 0; i < count;) {
    const std::int64_t block = (c + i) / grid.block_cols;
    const std::int64_t end = (block + 1) * grid.block_cols - c;
    const F scale(block_scale<F>(blocks, first + block));
    for (; i < end && i < count; i += F::kLanes) scale.store(scales + i);
  }
}

/// values *= scales * scale_inv.
template <class F>
[[gnu::flatten]] void multiply_scales(const float* scales, float scale_inv, int count,
                                      float* values) {
  for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
    (V::load(values + i) * V::load(scales + i) * V(scale_inv)).store(values + i);
  });
}

/// FP8 as it lies in the matrix: read(row, column, count, values) gives a block's codes as floats.
template <class F, class Read>
void decode_rows(const Input& x, const ScaleGrid& grid, Tile tile, TileValues to,
                 const Read& read) {
  for (std::int64_t c = tile.cols.begin; c < tile.cols.end; c += kBlock) {
    const int count = block_size<F>(c, tile.cols.end, kBlock);
    Block scales;
    for (std::int64_t r = tile.rows.begin; r < tile.rows.end; ++r) {
      if (r == tile.rows.begin || r % grid.block_rows == 0) {
        load_scales<F>(*x.blocks, grid, r, c, count, scales.values);
      }
      float* const values = tile_place<F>(to, tile, r, c);
      read(r, c, count, values);
      multiply_scales<F>(scales.values, factor<F>(x.scale_inv), count, values);
    }
  }
}

template <class F>
void decode_fp8(const Input& x, std::int64_t cols, Tile tile, TileValues to) {
  const BlockInput& blocks = *x.blocks;
  const std::int64_t along = blocks.scaling_mode == ScalingMode::mxfp8_1d ? 32 : 128;
  const std::int64_t across = blocks.scaling_mode == ScalingMode::float8_block_2d ? 128 : 1;
  const bool rowwise = blocks.usage == Usage::rowwise;
  const ScaleGrid grid{cols, rowwise ? across : along, rowwise ? along : across};
  const Input codes{.data = x.data, .dtype = x.dtype};
  decode_rows<F>(x, grid, tile, to, [&](std::int64_t r, std::int64_t c, int count, float* values) {
    load_block<F>(codes, r * cols + c, count, values);
  });
}

/// Rows of e2m1, two values a byte, each row whole blocks of 16.
template <class F>
void decode_nvfp4_rows(const Input& x, std::int64_t cols, Tile tile, TileValues to) {
  const std::int64_t row_bytes = (cols + 15) / 16 * 8;
  const std::int64_t across = x.blocks->scaling_mode == ScalingMode::nvfp4_2d ? 16 : 1;
  const auto* data = static_cast<const std::uint8_t*>(x.data);
  decode_rows<F>(x, {cols, across, 16}, tile, to,
                 [&](std::int64_t r, std::int64_t c, int count, float* values) {
                   const std::uint8_t* row = data + r * row_bytes + c / 2;
                   for (int i = 0; i < count; i += F::kLanes) {
                     const typename F::Int codes = F::Int::load_u4(row + i / 2);
                     E2m1Format::decode<F>(codes).store(values + i);
                   }
                 });
}

/// 16 rows of the matrix, of which memory holds 16 columns as rows of e2m1: blocks of column c
/// begin at block (c, row / 16).
template <class F>
void decode_nvfp4_square(const Input& x, std::int64_t row_blocks, std::int64_t row_block,
                         std::int64_t c, int count, Square<F>& square) {
  const BlockInput& blocks = *x.blocks;
  const bool squares = blocks.scaling_mode == ScalingMode::nvfp4_2d;
  const F scale_inv(factor<F>(x.scale_inv));
  float columns[16][F::kLanes], rows[16][F::kLanes] = {};
  for (int i = 0; i < count; ++i) {
    const std::int64_t block = (c + i) * row_blocks + row_block;
    const F scale(block_scale<F>(blocks, squares ? c / 16 * row_blocks + row_block : block));
    const auto* data = static_cast<const std::uint8_t*>(x.data) + block * 8;
    const F values = E2m1Format::decode<F>(F::Int::load_u4(data));
    (values * scale * scale_inv).store(columns[i]);
    for (int r = 0; r < 16; ++r) rows[r][i] = columns[i][r];
  }
  square.load(rows[0], F::kLanes);
}

/// The tile begins where blocks of rows do, and has room for whole ones.
template <class F>
[[gnu::flatten]] void decode_nvfp4_columns(const Input& x, std::int64_t rows, Tile tile,
                                           TileValues to) {
  for (std::int64_t r = tile.rows.begin; r < tile.rows.end; r += 16) {
    for (std::int64_t c = tile.cols.begin; c < tile.cols.end; c += F::kLanes) {
      const int count = block_size<F>(c, tile.cols.end, F::kLanes);
      Square<F> square;
      decode_nvfp4_square(x, (rows + 15) / 16, r / 16, c, count, square);
      if (x.blocks->hadamard) undo_hadamard_transform(square);
      square.store(tile_place<F>(to, tile, r, c), to.stride);
    }
  }
}

/// A tile of a block-scaled matrix [rows, cols].
template <class F>
void decode_tile(const Input& x, std::int64_t rows, std::int64_t cols, Tile tile, TileValues to) {
  if (x.dtype != DType::e2m1) return decode_fp8<F>(x, cols, tile, to);
  if (x.blocks->usage == Usage::rowwise) return decode_nvfp4_rows<F>(x, cols, tile, to);
  decode_nvfp4_columns<F>(x, rows, tile, to);
}

}  // namespace tape8::cpu
