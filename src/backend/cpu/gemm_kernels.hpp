#pragma once

#include <cstdint>

#include <tape8/core/dtype.hpp>
#include <tape8/core/scaling.hpp>

namespace tape8::cpu {

// What one instruction set gives to the GEMM. A strip of an operand is packed as steps of ascending
// k, each step `width` 32-bit words wide: one word a row of a, or a column of b. A word is an f32
// value, or two bf16 values of neighbouring k with the even one in the low half.

/// The block scales of an operand, one for each block of k and rows.
struct ScaleSource {
  ScalingMode mode = ScalingMode::none;
  const void* data = nullptr;
  std::int64_t stride_k = 0;     // from one block of k to the next
  std::int64_t stride_rows = 0;  // from one block of rows to the next
  int across_bits = 0;           // log2 of the rows of a block
};

/// A strip as it lies in memory.
struct StripSource {
  const void* data = nullptr;  // the strip's first element
  DType dtype = DType::f32;
  bool k_contiguous = false;  // neighbours in memory are neighbours in k, else in the strip
  std::int64_t stride = 0;    // elements from one k to the next, or from one row to the next
  std::int64_t width = 0;     // words a step; those from `count` on are zeros
  std::int64_t count = 0;
  std::int64_t depth = 0;  // k values
  const ScaleSource* scales = nullptr;
  // Where the strip begins in the operand; a block of scales along k begins there as well.
  std::int64_t first_row = 0, first_k = 0;
};

/// A finished tile of sums and where it goes.
struct TileStore {
  const float* sums = nullptr;  // [rows, GemmKernel::cols]
  std::int64_t rows = 0, cols = 0;
  float factor = 1.0F;          // scale_inv_a * scale_inv_b
  const float* bias = nullptr;  // [cols]; null: none
  void* d = nullptr;            // the tile's first element
  DType dtype = DType::f32;
  std::int64_t stride = 0;  // elements from one row of d to the next
  float scale = 1.0F;       // of FP8 stores
};

/// The sums of one kind of arithmetic.
struct GemmKernel {
  const char* name = "";
  double flops_per_nanosecond = 1.0;  // roughly, of one thread
  std::int64_t rows = 0, cols = 0;    // of the largest tile
  std::int64_t half_cols = 0;         // width of a strip of b that holds at most so many columns
  std::int64_t k_multiple = 1;        // depth is padded with zeros to a multiple
  std::int64_t k_per_step = 1;

  /// Packs a strip; may write up to kPackSlack words more than its steps take.
  void (*pack)(const StripSource& source, std::uint32_t* strip) = nullptr;

  /// sums[rows, cols] (+)= a * b over the steps of two strips `rows` and `cols` or `half_cols`
  /// wide.
  void (*multiply)(std::int64_t rows, std::int64_t b_width, std::int64_t steps,
                   const std::uint32_t* a, const std::uint32_t* b, bool accumulate,
                   float* sums) = nullptr;

  /// Scales, adds the bias and stores; the largest |value| before the cast, as bits.
  std::uint32_t (*store)(const TileStore& tile) = nullptr;
};

inline constexpr std::int64_t kPackSlack = 16;

/// A product of f64 matrices; strides are in elements.
struct DoubleProduct {
  std::int64_t n = 0, k = 0;
  const double* a = nullptr;
  std::int64_t a_row = 0, a_k = 0;
  const double* b = nullptr;
  std::int64_t b_k = 0, b_col = 0;
  double* d = nullptr;  // [rows, n]
};

struct GemmKernels {
  GemmKernel f32;
  GemmKernel bf16;

  /// Rows [begin, end) of d = a * b by acc = fma(a, b, acc) over ascending k.
  void (*multiply_f64)(const DoubleProduct& product, std::int64_t begin,
                       std::int64_t end) = nullptr;
};

extern const GemmKernels kGemmPortable;
extern const GemmKernels kGemmAvx2;
extern const GemmKernels kGemmAvx512;

}  // namespace tape8::cpu
