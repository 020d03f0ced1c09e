#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cpu/isa.hpp"
#include "backend/optimizer_factors.hpp"

namespace tape8::cpu {

// The elementwise and row kernels of one instruction set: one thread's share of a call. Units built
// with instruction set flags of their own use no inline function of other headers (std:: included),
// because the linker keeps one copy of such a function for all units; so arguments come as plain as
// can be.

struct Range {
  std::int64_t begin = 0, end = 0;
};

/// Part of a [rows, cols] matrix.
struct Tile {
  Range rows, cols;
};

/// Parts of matrices in memory that are read next, all of the same size.
struct Ahead {
  static constexpr int kMaxParts = 1 + kMaxActivationParts;

  struct Part {
    const char* data;
    std::int64_t row_bytes;  // from row to row
    int value_bytes;
  };
  Part parts[kMaxParts];
  int count = 0;
  std::int64_t rows = 0, cols = 0;
};

/// What nvfp4's columnwise cast stages of a column of a band, in bytes: 128 codes and their scales.
inline constexpr std::int64_t kStagedColumnBytes = 128 / 2 + 128 / 16;

/// The f32 values of a tile, between the op that computes them and what becomes of them: row r
/// begins at values + r * stride. Kernels write whole vectors, and read zeros up to a whole block.
struct TileValues {
  float* values = nullptr;
  std::int64_t stride = 0;
  float* column_amax = nullptr;   // bits of the columns' amaxes, where FP8 is cast columnwise
  std::uint8_t* stage = nullptr;  // room for staged columns, where nvfp4 is
  const Ahead* ahead = nullptr;   // fetched while these are cast; null: nothing
};

/// How a row is normalized: xhat = (x - center) * rsigma + shift. The shift is what the rounding of
/// center to f32 leaves of the mean, which counts where the mean is far larger than the deviations.
struct Normalizer {
  float center = 0.0F;
  float rsigma = 0.0F;
  float shift = 0.0F;
};

/// Calls a user's function, or its derivative, on a block of values; y may not be x.
using CustomFunction = void (*)(const CustomActivation&, const float* x, float* y, int count);

/// An ActivationType's parts, and how to call those that are the user's.
struct ActivationParts {
  Act acts[kMaxActivationParts] = {};
  const CustomActivation* customs[kMaxActivationParts] = {};  // null where the act counts
  int count = 0;
  CustomFunction custom_value = nullptr;
  CustomFunction custom_derivative = nullptr;
};

/// The bits of a largest |value|: as integers they are ordered like the values, a NaN above all.
using AmaxBits = std::int32_t;

/// Sets keep[i] to 1 where element at + i survives dropout, to 0 elsewhere.
using KeepElements = void (*)(const DropoutArgs&, std::int64_t at, int count, float* keep);

/// Columns that reduce_columns takes at most.
inline constexpr std::int64_t kReduceCols = 512;

/// Room that row sums have behind their last column, as kernels write whole vectors.
inline constexpr std::int64_t kSumPadding = 16;

/// Row sums (dbias, dgamma, dbeta; null: not wanted) are set to the sums over the given rows.
struct Kernels {
  AmaxBits (*cast)(const CastArgs&, Tile, float* dbias);
  AmaxBits (*activation)(const ActivationArgs&, const ActivationParts&, Tile);
  AmaxBits (*activation_backward)(const ActivationBackwardArgs&, const ActivationParts&, Tile,
                                  float* dbias);
  AmaxBits (*norm)(const NormArgs&, Range rows);
  AmaxBits (*norm_backward)(const NormBackwardArgs&, Range rows, float* dgamma, float* dbeta);
  /// Writes each row's logsumexp - logit of its label to losses.
  void (*softmax_cross_entropy)(const SoftmaxCrossEntropyArgs&, Range rows, double* losses);
  AmaxBits (*softmax_cross_entropy_backward)(const SoftmaxCrossEntropyBackwardArgs&, Range rows);
  AmaxBits (*binary)(const BinaryArgs&, Range elements);
  AmaxBits (*scale)(const ScaleArgs&, Range elements);
  AmaxBits (*dropout)(const DropoutArgs&, KeepElements, Range elements);
  double (*sum)(const Input&, Range elements);
  double (*sum_of_squares)(const Input&, Range elements);
  double (*squared_error)(const MseArgs&, Range elements);
  AmaxBits (*mse_backward)(const MseBackwardArgs&, Range elements);
  AmaxBits (*reduce_columns)(const ReduceArgs&, std::int64_t outer, Range cols);
  AmaxBits (*broadcast)(const BroadcastArgs&, Range rows);
  AmaxBits (*broadcast_scalar)(const BroadcastArgs&, std::int64_t outer, Range elements);
  AmaxBits (*adamw)(const AdamWTensor&, AdamWFactors, Range elements);
  AmaxBits (*sgd)(const SgdTensor&, SgdFactors, Range elements);
  /// The largest |value|: finite where all are.
  AmaxBits (*amax)(const Input&, Range elements);

  // Ops by tiles: their values as f32, not rounded to any type. Sums are added to dbias.
  void (*load_tile)(const Input&, std::int64_t cols, Tile, TileValues);
  void (*activation_tile)(const ActivationArgs&, const ActivationParts&, Tile, TileValues);
  /// Part p at values + p * part_offset; the tile is one of dy.
  void (*activation_backward_tile)(const ActivationBackwardArgs&, const ActivationParts&, Tile,
                                   TileValues, std::int64_t part_offset, float* dbias);
  /// Of whole rows.
  void (*norm_tile)(const NormArgs&, Tile, TileValues, Normalizer* rows, bool rows_known);
  void (*sum_tile)(Tile, TileValues, float* dbias);
  /// Stores a tile of [.., cols] as the op's own kernel does.
  AmaxBits (*store_tile)(const Output&, std::int64_t cols, Tile, TileValues);
};

/// nvfp4's t and 1 / t.
struct TensorScale {
  float scale = 1.0F;
  float scale_inv = 1.0F;
};

/// A matrix that is cast with block scales, tile by tile.
struct BlockCast {
  const BlockOutput* output = nullptr;
  std::int64_t rows = 0, cols = 0;
  TensorScale rowwise, columnwise;
};

/// The kernels of block scales, of one instruction set. A matrix is cast in tiles that begin and
/// end where blocks do; their rows come some at a time, nvfp4's as whole blocks.
struct BlockKernels {
  /// Casts what needs no more than these rows of a tile; notes or stages what columns need.
  void (*cast_rows)(const BlockCast&, Tile, TileValues);
  /// After all rows of a tile: makes multipliers of column_amax, or writes out what was staged.
  /// Returns whether amaxes of columns are finite.
  bool (*end_rows)(const BlockCast&, Tile, TileValues);
  /// Then casts rows of FP8 by the columns' multipliers.
  void (*cast_columns)(const BlockCast&, Tile, TileValues, bool finite);
  /// The amax of a tile's columns, transformed.
  AmaxBits (*hadamard_amax)(Tile, TileValues);
  /// The values of a tile of a block-scaled matrix [rows, cols]. It begins where blocks of 16 rows
  /// do, and has room for whole ones.
  void (*decode_tile)(const Input&, std::int64_t rows, std::int64_t cols, Tile, TileValues);
};

/// All kernels of one instruction set.
struct KernelSet {
  const Kernels& kernels;
  const BlockKernels& blocks;
};

const Kernels& portable_kernels();
const BlockKernels& portable_block_kernels();
#if defined(TAPE8_X86_64)
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const BlockKernels& avx2_block_kernels();
const BlockKernels& avx512_block_kernels();
#endif

}  // namespace tape8::cpu
