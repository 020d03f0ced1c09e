#pragma once

#include <cstdint>

#include "backend/cuda/block_scales.hpp"
#include "backend/cuda/flat.hpp"

namespace tape8::cuda {

inline __device__ float decode_e2m1(std::uint8_t code) {
  const unsigned exponent = code >> 1U & 3U;
  const unsigned mantissa = code & 1U;
  const float magnitude = exponent == 0 ? 0.5F * static_cast<float>(mantissa)
                                        : static_cast<float>((2U + mantissa) << exponent) * 0.25F;
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

/// A matrix as it lies in memory, row-major; its values are float(q) times their block's scale.
struct BlockSource {
  Source source;
  ScalingMode mode = ScalingMode::none;
  const void* scales = nullptr;  // null: all 1
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_blocks = 1, col_blocks = 1;  // values of a block along either axis
  std::int64_t scale_cols = 0;

  static BlockSource of(const void* data, DType dtype, std::int64_t rows, std::int64_t cols) {
    BlockSource result;
    result.source.data = data;
    result.source.dtype = dtype;
    result.rows = rows;
    result.cols = cols;
    return result;
  }
  /// Blocks lie along the rows, or along the columns.
  void set_blocks(ScalingMode scaling_mode, const void* block_scales, bool along_rows) {
    const ScalingBlock block = scaling_block(scaling_mode);
    mode = scaling_mode;
    scales = block_scales;
    row_blocks = along_rows ? block.across : block.along;
    col_blocks = along_rows ? block.along : block.across;
    scale_cols = divide_up(cols, col_blocks);
  }

  /// A vector's values from (row, col) on; zeros past the matrix.
  template <class Real>
  __device__ void load(std::int64_t row, std::int64_t col, Real (&out)[kVector]) const {
    const std::int64_t left = row < rows ? cols - col : 0;
    const int valid = left < 0 ? 0 : left < kVector ? static_cast<int>(left) : kVector;
    for (int i = 0; i < kVector; ++i) out[i] = 0;
    if (valid == 0) return;
    if (source.dtype == DType::e2m1) {
      // Rows are whole blocks of 16 codes, two a byte, the first low.
      const std::int64_t row_bytes = (cols + 15) / 16 * 8;
      const auto* codes = static_cast<const std::uint8_t*>(source.data) + row * row_bytes + col / 2;
      for (int i = 0; i < valid; ++i) {
        const std::uint8_t pair = codes[i / 2];
        out[i] = decode_e2m1(i % 2 == 0 ? pair & 0xFU : pair >> 4U);
      }
    } else {
      source.load(row * cols + col, valid, out);
    }
    if (scales == nullptr) return;
    for (int i = 0; i < valid; ++i) {
      const std::int64_t index = row / row_blocks * scale_cols + (col + i) / col_blocks;
      out[i] *= static_cast<Real>(load_block_scale(mode, scales, index));
    }
  }
};

}  // namespace tape8::cuda
