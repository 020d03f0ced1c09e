#include "backend/cpu/tile_run.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>

#include "backend/cpu/random_bits.hpp"

namespace tape8::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};  // of whole vectors
constexpr std::int64_t kVector = 16;        // values

constexpr std::int64_t kBandRows = 32;          // where no blocks decide
constexpr std::int64_t kTileSize = 128 * 1024;  // values in the second-level cache
constexpr std::int64_t kStripSize = 4 * 1024;   // values in the first

struct AlignedDelete {
  void operator()(float* p) const { ::operator delete(p, kAlignment); }
};

/// Memory of the calling thread; it stays for the next call.
float* aligned_workspace(std::int64_t count) {
  thread_local std::unique_ptr<float, AlignedDelete> memory;
  thread_local std::int64_t capacity = 0;
  if (capacity < count) {
    capacity = 0;
    memory.reset();
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    memory.reset(static_cast<float*>(::operator new(bytes, kAlignment)));
    capacity = count;
  }
  return memory.get();
}

/// Scales of a tensor with this amax: t = 6 * 448 / amax, FLT_MAX where that is Inf, 1 where it is
/// 0.
TensorScale tensor_scale(const BlockPart& part) {
  if (part.data == nullptr) return {};
  const float ratio = 6.0F * 448.0F / part.amax->value;
  const float scale = ratio == 0.0F       ? 1.0F
                      : std::isinf(ratio) ? std::numeric_limits<float>::max()
                                          : ratio;
  part.tensor_scale_inv->value = 1.0F / scale;
  return {scale, 1.0F / scale};
}

bool is_2d(ScalingMode mode) {
  return mode == ScalingMode::float8_block_2d || mode == ScalingMode::nvfp4_2d;
}

}  // namespace

TileRun::TileRun(const KernelSet& set, std::int64_t rows, std::int64_t cols, std::int64_t parts,
                 TileForm form, const Output& output, Amax* hadamard_amax)
    : set_(set),
      output_(output),
      hadamard_amax_(hadamard_amax),
      parts_(parts),
      cast_{output.blocks, rows, parts * cols, {}, {}} {
  std::int64_t band_rows = kBandRows;
  if (output.blocks != nullptr) {
    const BlockOutput& blocks = *output.blocks;
    const ScalingMode mode = blocks.scaling_mode;
    block_cols_ = scaling_block(mode).along;
    band_rows = mode == ScalingMode::mxfp8_1d ? 32 : 128;
    keeps_band_ = is_2d(mode) || blocks.columnwise.data != nullptr;
    notes_columns_ = keeps_band_ && !is_nvfp4(mode);
    if (is_nvfp4(mode)) {
      cast_.rowwise = tensor_scale(blocks.rowwise);
      cast_.columnwise = tensor_scale(blocks.columnwise);
      cast_.random_bits = random_bits;
    }
  }
  keeps_band_ = keeps_band_ || hadamard_amax != nullptr;
  // Tiles of one part end where its blocks do, unless those reach into the next part.
  const bool any_width = form != TileForm::whole_rows && (parts == 1 || cols % block_cols_ == 0);
  parts_apart_ = parts == 1 || any_width;
  const std::int64_t tile_cols = any_width ? kTileSize / band_rows / parts : cols;
  grid_ = {rows, cols, band_rows, std::max<std::int64_t>(round_up(tile_cols, block_cols_), 1)};
  const std::int64_t tile_width = std::min(cols, grid_.tile_cols) * parts;
  strip_rows_ = std::max<std::int64_t>(kStripSize / std::max<std::int64_t>(tile_width, 1), 1);
  if (form == TileForm::row_blocks) strip_rows_ = round_up(strip_rows_, kVector);
}

TileRows TileRun::memory(const Tile& tile) const {
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  const std::int64_t columns = parts_apart_ ? width : width * parts_;
  // A vector more, so that rows do not fall on the same few sets of the first-level cache.
  const std::int64_t stride = round_up(columns, std::max(block_cols_, kVector)) + kVector;
  const std::int64_t rows = keeps_band_ ? grid_.band_rows : strip_rows_;
  const std::int64_t pieces = parts_apart_ ? parts_ : 1;
  const std::int64_t piece = (rows + 1) * stride;
  float* const values = aligned_workspace(pieces * piece);
  float* const column_amax = notes_columns_ ? values + rows * stride : nullptr;
  if (notes_columns_) {
    for (std::int64_t p = 0; p < pieces; ++p) std::fill_n(column_amax + p * piece, stride, 0.0F);
  }
  return {tile, {values, stride, column_amax}, parts_apart_ ? piece : width};
}

TileRows TileRun::rows_of(const TileRows& tile, std::int64_t row) const {
  TileRows rows = tile;
  rows.tile.rows = {row, std::min(row + strip_rows_, tile.tile.rows.end)};
  if (keeps_band_) rows.values.values += (row - tile.tile.rows.begin) * tile.values.stride;
  return rows;
}

template <class Take>
void TileRun::for_each_part(const TileRows& rows, const Take& take) const {
  if (!parts_apart_) return take(Tile{rows.tile.rows, {0, cast_.cols}}, rows.values);
  for (std::int64_t p = 0; p < parts_; ++p) {
    const Range cols{p * grid_.cols + rows.tile.cols.begin, p * grid_.cols + rows.tile.cols.end};
    TileValues values = rows.values;
    values.values += p * rows.part_offset;
    if (notes_columns_) values.column_amax += p * rows.part_offset;
    take(Tile{rows.tile.rows, cols}, values);
  }
}

AmaxBits TileRun::take_rows(const TileRows& rows) const {
  AmaxBits amax = 0;
  for_each_part(rows, [&](const Tile& tile, const TileValues& values) {
    const std::int64_t width = tile.cols.end - tile.cols.begin;
    for (std::int64_t r = 0; r < tile.rows.end - tile.rows.begin; ++r) {
      std::fill_n(values.values + r * values.stride + width, values.stride - width, 0.0F);
    }
    if (output_.data != nullptr || output_.amax != nullptr) {
      amax = std::max(amax, set_.kernels.store_tile(output_, cast_.cols, tile, values));
    }
    if (output_.blocks != nullptr) set_.blocks.cast_rows(cast_, tile, values);
  });
  return amax;
}

void TileRun::take_band(const TileRows& tile) const {
  if (!keeps_band_) return;
  for_each_part(tile, [&](const Tile& part, const TileValues& values) {
    // Short blocks of columns are as long as the others, of zeros.
    const std::int64_t rows = part.rows.end - part.rows.begin;
    std::fill_n(values.values + rows * values.stride,
                (round_up(rows, kVector) - rows) * values.stride, 0.0F);
    if (hadamard_amax_ != nullptr) {
      note_amax(hadamard_amax_, set_.blocks.hadamard_amax(part, values));
    }
    if (output_.blocks != nullptr) set_.blocks.cast_band(cast_, part, values);
  });
}

}  // namespace tape8::cpu
