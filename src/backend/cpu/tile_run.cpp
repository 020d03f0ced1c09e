#include "backend/cpu/tile_run.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>

namespace tape8::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};  // of whole vectors
constexpr std::int64_t kVector = 16;        // values

constexpr std::int64_t kBandRows = 32;          // where no blocks decide
constexpr std::int64_t kKeptSize = 128 * 1024;  // values of a tile, in the second-level cache
constexpr std::int64_t kStripSize = 4 * 1024;   // values of a strip, in the first
constexpr std::int64_t kTileCols = 512;         // of a tile that is kept

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

TileRun::TileRun(const KernelSet& set, std::int64_t rows, std::int64_t cols,
                 const TileTraits& traits, const Output& output, Amax* hadamard_amax)
    : set_(set),
      output_(output),
      hadamard_amax_(hadamard_amax),
      traits_(traits),
      cast_{output.blocks, rows, traits.parts * cols, {}, {}} {
  std::int64_t band_rows = kBandRows;
  bool row_blocks = traits.row_blocks || hadamard_amax != nullptr;
  if (output.blocks != nullptr) {
    const BlockOutput& blocks = *output.blocks;
    const ScalingMode mode = blocks.scaling_mode;
    block_cols_ = scaling_block(mode).along;
    band_rows = mode == ScalingMode::mxfp8_1d ? 32 : 128;
    const bool columns = blocks.columnwise.data != nullptr || is_2d(mode);
    if (is_nvfp4(mode)) {
      cast_.rowwise = tensor_scale(blocks.rowwise);
      cast_.columnwise = tensor_scale(blocks.columnwise);
      stages_columns_ = blocks.columnwise.data != nullptr;
      row_blocks = row_blocks || columns;
    } else {
      casts_columns_ = columns;
      keeps_tile_ = columns && !(traits.repeatable && band_rows * cols > kKeptSize);
    }
  }
  // Tiles of one part end where its blocks do, unless those reach into the next part.
  const std::int64_t parts = traits.parts;
  const bool any_width = !traits.whole_rows && (parts == 1 || cols % block_cols_ == 0);
  parts_apart_ = parts == 1 || any_width;
  // Short rows leave room for the columns' sums and scales; long ones are read faster.
  const bool rows_alone = !casts_columns_ && !row_blocks;
  const std::int64_t some_cols = rows_alone ? kStripSize / parts : kTileCols;
  const std::int64_t tile_cols = any_width ? some_cols : cols;
  grid_ = {rows, cols, band_rows, std::max<std::int64_t>(round_up(tile_cols, block_cols_), 1)};
  const std::int64_t tile_width = std::min(cols, grid_.tile_cols) * parts;
  strip_rows_ = std::max<std::int64_t>(kStripSize / std::max<std::int64_t>(tile_width, 1), 1);
  if (row_blocks) strip_rows_ = round_up(strip_rows_, kVector);
  // No strip reaches into two blocks of a sum's rows.
  strip_rows_ =
      std::min(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(strip_rows_))),
               kMinSumRows);
}

TileRows TileRun::memory(const Tile& tile) const {
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  const std::int64_t parts = traits_.parts;
  const std::int64_t pieces = parts_apart_ ? parts : 1;
  // A vector more, so that rows do not fall on the same few sets of the first-level cache.
  const std::int64_t stride =
      round_up(parts_apart_ ? width : width * parts, std::max(block_cols_, kVector)) + kVector;
  const std::int64_t rows = keeps_tile_ ? grid_.band_rows : strip_rows_;
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t column_rows = casts_columns_    ? 1
                                   : stages_columns_ ? kStagedColumnBytes / kFloat
                                                     : 0;
  const std::int64_t piece = (rows + column_rows) * stride;
  constexpr auto kNormalizer = static_cast<std::int64_t>(sizeof(Normalizer)) / kFloat;
  float* const values = aligned_workspace(pieces * piece + grid_.band_rows * kNormalizer);
  TileRows all{tile, {values, stride}, parts_apart_ ? piece : width, nullptr, false, {}};
  all.normalizers = reinterpret_cast<Normalizer*>(values + pieces * piece);
  float* const columns = values + rows * stride;
  if (casts_columns_) {
    all.values.column_amax = columns;
    for (std::int64_t p = 0; p < pieces; ++p) std::fill_n(columns + p * piece, stride, 0.0F);
  }
  if (stages_columns_) all.values.stage = reinterpret_cast<std::uint8_t*>(columns);
  return all;
}

TileRows TileRun::rows_of(const TileRows& tile, std::int64_t row, const Tile& next) const {
  const Range all = tile.tile.rows;
  TileRows rows = tile;
  rows.tile.rows = {row, std::min(row + strip_rows_, all.end)};
  if (keeps_tile_) rows.values.values += (row - all.begin) * tile.values.stride;
  rows.normalizers += row - all.begin;
  // The first of two passes finds its rows fetched, by the second over the tile before.
  if (casts_columns_ != tile.again) return rows;
  rows.next = next;
  if (tile.again) {
    rows.next.rows.begin += row - all.begin;
  } else if (row + strip_rows_ < all.end) {
    rows.next = {{row + strip_rows_, all.end}, tile.tile.cols};
  }
  return rows;
}

Ahead TileRun::ahead_of(const Tile& next, std::int64_t p) const {
  Ahead ahead;
  ahead.rows = next.rows.end - next.rows.begin;
  ahead.cols = next.cols.end - next.cols.begin;
  for (const TileInput& input : traits_.inputs) {
    if (input.x == nullptr || input.x->blocks != nullptr) continue;
    // An input with the values' parts is read part by part, another with the first.
    const bool same_parts = input.parts == traits_.parts;
    if (!same_parts && p > 0) continue;
    const std::int64_t last = same_parts ? p + 1 : input.parts;
    for (std::int64_t part = same_parts ? p : 0; part < last; ++part) {
      const int size = bits(input.x->dtype) / 8;
      const std::int64_t row_bytes = input.parts * grid_.cols * size;
      const auto* const data = static_cast<const char*>(input.x->data) +
                               next.rows.begin * row_bytes +
                               (part * grid_.cols + next.cols.begin) * size;
      ahead.parts[ahead.count++] = {data, row_bytes, size};
    }
  }
  return ahead;
}

template <class Take>
void TileRun::for_each_part(const TileRows& rows, const Take& take) const {
  if (!parts_apart_) return take(Tile{rows.tile.rows, {0, cast_.cols}}, rows.values);
  for (std::int64_t p = 0; p < traits_.parts; ++p) {
    const Range cols{p * grid_.cols + rows.tile.cols.begin, p * grid_.cols + rows.tile.cols.end};
    const std::int64_t offset = p * rows.part_offset;
    const Ahead ahead = ahead_of(rows.next, p);
    TileValues values = rows.values;
    values.values += offset;
    if (casts_columns_) values.column_amax += offset;
    if (stages_columns_) values.stage += offset * static_cast<std::int64_t>(sizeof(float));
    values.ahead = &ahead;
    take(Tile{rows.tile.rows, cols}, values);
  }
}

AmaxBits TileRun::take_rows(const TileRows& strip) const {
  AmaxBits amax = 0;
  for_each_part(strip, [&](const Tile& tile, const TileValues& values) {
    // Short blocks are as long as the others, of zeros.
    const std::int64_t width = tile.cols.end - tile.cols.begin;
    const std::int64_t rows = tile.rows.end - tile.rows.begin;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::fill_n(values.values + r * values.stride + width, values.stride - width, 0.0F);
    }
    if (strip_rows_ % kVector == 0) {
      std::fill_n(values.values + rows * values.stride,
                  (round_up(rows, kVector) - rows) * values.stride, 0.0F);
    }
    if (output_.data != nullptr || output_.amax != nullptr) {
      amax = std::max(amax, set_.kernels.store_tile(output_, cast_.cols, tile, values));
    }
    if (hadamard_amax_ != nullptr) {
      note_amax(hadamard_amax_, set_.blocks.hadamard_amax(tile, values));
    }
    if (output_.blocks != nullptr) set_.blocks.cast_rows(cast_, tile, values);
  });
  return amax;
}

bool TileRun::end_rows(const TileRows& tile) const {
  bool finite = true;
  if (!casts_columns_ && !stages_columns_) return finite;
  for_each_part(tile, [&](const Tile& part, const TileValues& values) {
    finite = set_.blocks.end_rows(cast_, part, values) && finite;
  });
  return finite;
}

void TileRun::take_columns(const TileRows& rows, bool finite) const {
  for_each_part(rows, [&](const Tile& part, const TileValues& values) {
    set_.blocks.cast_columns(cast_, part, values, finite);
  });
}

}  // namespace tape8::cpu
