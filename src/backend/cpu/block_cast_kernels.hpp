#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/element_formats.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/wide.hpp"

namespace tape8::cpu {

// Casts to FP8 with block scales.

inline constexpr float kLargestFloat = 3.40282347e38F;

/// Has `count` columns of a row of what is read next fetched to the second-level cache. Between the
/// arithmetic of a cast that costs next to nothing.
template <class F>
[[gnu::always_inline]] inline void fetch(const Ahead* ahead, std::int64_t row, std::int64_t col,
                                         std::int64_t count) {
  constexpr std::int64_t kLine = 64;
  if (ahead == nullptr || row >= ahead->rows) return;
  const std::int64_t end = col + count < ahead->cols ? col + count : ahead->cols;
  for (int p = 0; p < ahead->count; ++p) {
    const Ahead::Part& part = ahead->parts[p];
    const char* const data = part.data + row * part.row_bytes;
    for (std::int64_t i = col * part.value_bytes; i < end * part.value_bytes; i += kLine) {
      __builtin_prefetch(data + i, 0, 2);
    }
  }
}

/// Lets store(place) write a vector, of which only the first `count` lanes reach `to`.
template <class V, class T, class Store>
[[gnu::always_inline]] inline void store_lanes(T* to, std::int64_t count, const Store& store) {
  if (count >= V::kLanes) return store(to);
  T lanes[V::kLanes];
  store(lanes);
  __builtin_memcpy(to, lanes, static_cast<std::size_t>(count) * sizeof(T));
}

/// mxfp8: with v = amax / largest, code = v's exponent, plus 1 where it has a mantissa, and
/// 2^(127 - code) multiplies.
struct Mxfp8Scales {
  using Stored = std::uint8_t;
  float largest;

  /// The multipliers of blocks with these amaxes; the first `count` codes are stored.
  template <class V>
  [[gnu::always_inline]] V operator()(const typename V::Int& amax, Stored* scale_inv,
                                      std::int64_t count) const {
    using Int = typename V::Int;
    const Int v = bits(V::from_bits(amax) / V(largest));
    const Int finite = select(v > Int(0x400000), (v + Int(0x7FFFFF)) >> 23, Int(0));
    const Int code = select(v > Int(kInfinityBits), Int(255), min(finite, Int(254)));
    store_lanes<V>(scale_inv, count, [&](Stored* to) { code.store_u8(to); });
    // 2^-127 is denormal, and a NaN makes NaN of every value in its block.
    const Int last = select(code > Int(254), Int(kNanBits), Int(0x400000));
    return V::from_bits(select(code > Int(253), last, (Int(254) - code) << 23));
  }
};

/// float8_block: largest / amax multiplies, 1 where the amax is 0, Inf or NaN.
struct Float8BlockScales {
  using Stored = float;
  float largest;
  bool power_of_2;

  template <class V>
  [[gnu::always_inline]] V operator()(const typename V::Int& amax, Stored* scale_inv,
                                      std::int64_t count) const {
    using Int = typename V::Int;
    const V one(1.0F);
    const V ratio = min(V(largest) / V::from_bits(amax), V(kLargestFloat));
    const V finite = select(Int(kInfinityBits) > amax, ratio, one);
    V scale = select(amax > Int(0), finite, one);
    if (power_of_2) scale = V::from_bits(bits(scale) & Int(kInfinityBits));
    store_lanes<V>(scale_inv, count, [&](Stored* to) { (one / scale).store(to); });
    return scale;
  }
};

/// Stores values that their blocks' scales have made fit, which takes finite amaxes.
template <class To, bool kFinite, class V>
[[gnu::always_inline]] inline void store_scaled(typename To::Storage* to, const V& x) {
  if constexpr (kFinite) {
    To::store_in_range(to, x);
  } else {
    To::store(to, x);
  }
}

/// Where one usage's part of a tile goes: data as it lies in the matrix, and scales, `stride` to a
/// row of them.
template <class F, class To, class Scales>
struct TilePart {
  typename To::Storage* data;
  std::int64_t cols;  // of the matrix
  typename Scales::Stored* scale_inv;
  std::int64_t stride;

  /// Each scale covers block_rows x block_cols values.
  TilePart(const BlockCast& cast, const BlockPart& part, const Tile& tile, std::int64_t block_rows,
           std::int64_t block_cols)
      : data(static_cast<typename To::Storage*>(part.data) + tile.rows.begin * cast.cols +
             tile.cols.begin),
        cols(cast.cols),
        stride((cast.cols + block_cols - 1) / block_cols) {
    scale_inv = static_cast<typename Scales::Stored*>(part.scale_inv) +
                tile.rows.begin / block_rows * stride + tile.cols.begin / block_cols;
  }
};

/// Some blocks that follow each other in a row, and what their values are multiplied by.
struct BlockRun {
  std::int64_t row, block;
  int count;
  const float* values;
  const float* multipliers;
  bool finite;  // all amaxes are
};

/// Calls body(BlockRun) for all blocks of kAlong values along the tile's rows, which are
/// `row_blocks` each, having stored their scales. These are made of some sixteen blocks at a time,
/// a lane each: of about a thousand values, as the arithmetic of one scale takes long.
template <class F, int kAlong, class Scales, class Body>
[[gnu::always_inline]] inline void for_each_block_run(const Scales& scales, std::int64_t rows,
                                                      std::int64_t row_blocks, TileValues tile,
                                                      typename Scales::Stored* scale_inv,
                                                      std::int64_t scale_stride, const Body& body) {
  using Int = typename F::Int;
  using W = WideFloat<F, (kAlong < 64 ? 64 / kAlong : 1)>;
  const std::int64_t rest = tile.stride - row_blocks * kAlong;
  const float* values = tile.values;
  std::int64_t ahead = 0;  // the block of its row that `values` points to
  std::int64_t row = 0, block = 0;
  for (std::int64_t left = rows * row_blocks; left > 0; left -= W::kLanes) {
    typename W::Int amax;
    for (int p = 0; p < W::kParts; ++p) {
      Int largest[F::kLanes];
      for (int i = 0; i < F::kLanes; ++i) {
        largest[i] = magnitude(F::load(values));
        for (int lane = F::kLanes; lane < kAlong; lane += F::kLanes) {
          largest[i] = max(largest[i], magnitude(F::load(values + lane)));
        }
        if (p * F::kLanes + i + 1 >= left) continue;  // the last block stands for what is missing
        values += kAlong;
        if (++ahead == row_blocks) {
          values += rest;
          ahead = 0;
        }
      }
      amax.part[p] = reduce_max_each(largest);
    }
    const bool finite = reduce_max(amax) < kInfinityBits;
    typename Scales::Stored stored[W::kLanes];
    float multipliers[W::kLanes];
    scales.template operator()<W>(amax, stored, W::kLanes).store(multipliers);
    const int group = left < W::kLanes ? static_cast<int>(left) : W::kLanes;
    for (int i = 0; i < group;) {
      const std::int64_t in_row = row_blocks - block;
      const int count = in_row < group - i ? static_cast<int>(in_row) : group - i;
      for (int k = 0; k < count; ++k) {
        scale_inv[row * scale_stride + block + k] = stored[i + k];
      }
      body(BlockRun{row, block, count, tile.values + row * tile.stride + block * kAlong,
                    multipliers + i, finite});
      i += count;
      block += count;
      if (block == row_blocks) {
        block = 0;
        ++row;
      }
    }
  }
}

/// Casts `count` whole blocks.
template <class F, class To, int kAlong, bool kFinite>
[[gnu::always_inline]] inline void cast_run(const float* values, const float* multipliers,
                                            std::int64_t count, typename To::Storage* to) {
  constexpr int kVectors = kAlong / F::kLanes;
  using V = WideFloat<F, (kVectors < F::kUnroll ? kVectors : F::kUnroll)>;
  for (std::int64_t b = 0; b < count; ++b) {
    const V multiplier(multipliers[b]);
    for (int i = 0; i < kAlong; i += V::kLanes) {
      store_scaled<To, kFinite>(to + b * kAlong + i, V::load(values + b * kAlong + i) * multiplier);
    }
  }
}

/// Blocks of kAlong values along the rows of a tile that is `width` columns wide.
template <class F, class To, int kAlong, class Scales>
[[gnu::flatten]] void cast_along_rows(const Scales& scales, std::int64_t rows, std::int64_t width,
                                      TileValues tile, TilePart<F, To, Scales> to) {
  const std::int64_t row_blocks = (width + kAlong - 1) / kAlong;
  for_each_block_run<F, kAlong>(
      scales, rows, row_blocks, tile, to.scale_inv, to.stride, [&](const BlockRun& run) {
        const std::int64_t col = run.block * kAlong;
        const std::int64_t whole_blocks = width / kAlong - run.block;
        const std::int64_t whole = whole_blocks < run.count ? whole_blocks : run.count;
        typename To::Storage* const data = to.data + run.row * to.cols + col;
        fetch<F>(tile.ahead, run.row, col, run.count * kAlong);
        if (run.finite) {
          cast_run<F, To, kAlong, true>(run.values, run.multipliers, whole, data);
        } else {
          cast_run<F, To, kAlong, false>(run.values, run.multipliers, whole, data);
        }
        if (whole == run.count) return;
        typename To::Storage last[kAlong];  // a short block
        cast_run<F, To, kAlong, false>(run.values + whole * kAlong, run.multipliers + whole, 1,
                                       last);
        __builtin_memcpy(data + whole * kAlong, last, static_cast<std::size_t>(width % kAlong));
      });
}

/// Raises the amaxes of the tile's columns.
template <class F>
[[gnu::flatten]] void note_columns(std::int64_t rows, std::int64_t width, TileValues tile) {
  for_each_vector<F, F::kUnroll>(static_cast<int>(width), [&]<class V>(int c) {
    typename V::Int amax = bits(V::load(tile.column_amax + c));
    for (std::int64_t r = 0; r < rows; ++r) {
      amax = max(amax, magnitude(V::load(tile.values + r * tile.stride + c)));
    }
    V::from_bits(amax).store(tile.column_amax + c);
  });
}

/// Whether the amaxes of columns are finite.
template <class F>
bool finite_columns(std::int64_t width, const float* amaxes) {
  typename F::Int largest(0);
  for (std::int64_t c = 0; c < width; c += F::kLanes) {
    largest = max(largest, bits(F::load(amaxes + c)));
  }
  return reduce_max(largest) < kInfinityBits;
}

/// Makes multipliers of the amaxes of columns.
template <class F, class Scales>
[[gnu::flatten]] void scale_columns(const Scales& scales, std::int64_t width,
                                    typename Scales::Stored* scale_inv, float* columns) {
  for (std::int64_t c = 0; c < width; c += F::kLanes) {
    const typename F::Int amax = bits(F::load(columns + c));
    scales.template operator()<F>(amax, scale_inv + c, width - c).store(columns + c);
  }
}

/// Makes multipliers of the amaxes of columns, the same for kAcross of them.
template <class F, int kAcross, class Scales>
[[gnu::flatten]] void scale_squares(const Scales& scales, std::int64_t width,
                                    typename Scales::Stored* scale_inv, float* columns) {
  for (std::int64_t c = 0; c < width; c += kAcross) {
    typename F::Int amax(0);
    for (int i = 0; i < kAcross; i += F::kLanes) {
      amax = max(amax, bits(F::load(columns + c + i)));
    }
    const F multiplier = scales.template operator()<F>(typename F::Int(reduce_max(amax)),
                                                       scale_inv + c / kAcross, 1);
    for (int i = 0; i < kAcross; i += F::kLanes) multiplier.store(columns + c + i);
  }
}

/// Casts rows with a multiplier for each column.
template <class F, class To, bool kFinite>
[[gnu::flatten]] void cast_by_columns(std::int64_t rows, std::int64_t width, TileValues tile,
                                      typename To::Storage* to, std::int64_t cols) {
  const std::int64_t whole = width / F::kLanes * F::kLanes;
  const float* const multipliers = tile.column_amax;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* values = tile.values + r * tile.stride;
    typename To::Storage* data = to + r * cols;
    for_each_vector<F, F::kUnroll>(static_cast<int>(whole), [&]<class V>(int c) {
      fetch<F>(tile.ahead, r, c, V::kLanes);
      store_scaled<To, kFinite>(data + c, V::load(values + c) * V::load(multipliers + c));
    });
    if (whole == width) continue;
    typename To::Storage last[F::kLanes];
    store_scaled<To, kFinite>(last, F::load(values + whole) * F::load(multipliers + whole));
    __builtin_memcpy(data + whole, last, static_cast<std::size_t>(width - whole));
  }
}

/// Calls visit.template operator()<To, kAlong>(scales) with what a mode's casts are made of.
template <class Visit>
void visit_fp8_mode(const BlockOutput& output, const Visit& visit) {
  const auto visit_with = [&]<class To>() {
    if (output.scaling_mode == ScalingMode::mxfp8_1d) {
      return visit.template operator()<To, 32>(Mxfp8Scales{To::kLargestValue});
    }
    visit.template operator()<To, 128>(
        Float8BlockScales{To::kLargestValue, output.power_of_2_scale});
  };
  if (output.dtype == DType::e5m2) return visit_with.template operator()<E5m2Format>();
  visit_with.template operator()<E4m3Format>();
}

/// Casts rows of blocks as they come, and notes the amaxes of columns.
template <class F>
void cast_fp8_rows(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  if (values.column_amax != nullptr) note_columns<F>(rows, width, values);
  if (output.rowwise.data == nullptr || output.scaling_mode == ScalingMode::float8_block_2d) return;
  visit_fp8_mode(output, [&]<class To, int kAlong, class Scales>(const Scales& scales) {
    const TilePart<F, To, Scales> to(cast, output.rowwise, tile, 1, kAlong);
    cast_along_rows<F, To, kAlong>(scales, rows, width, values, to);
  });
}

/// Stores the scales of columns, or of squares, and makes multipliers of their amaxes; returns
/// whether these are finite.
template <class F>
bool end_fp8_rows(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  float* const columns = values.column_amax;
  const bool finite = finite_columns<F>(width, columns);
  visit_fp8_mode(output, [&]<class To, int kAlong, class Scales>(const Scales& scales) {
    if (output.scaling_mode != ScalingMode::float8_block_2d) {
      const TilePart<F, To, Scales> to(cast, output.columnwise, tile, kAlong, 1);
      return scale_columns<F>(scales, width, to.scale_inv, columns);
    }
    // One block a square: the usages differ in nothing.
    const bool rowwise = output.rowwise.data != nullptr;
    const BlockPart& first = rowwise ? output.rowwise : output.columnwise;
    const TilePart<F, To, Scales> to(cast, first, tile, kAlong, kAlong);
    scale_squares<F, kAlong>(scales, width, to.scale_inv, columns);
    if (!rowwise || output.columnwise.data == nullptr) return;
    const TilePart<F, To, Scales> copy(cast, output.columnwise, tile, kAlong, kAlong);
    const auto blocks = static_cast<std::size_t>((width + kAlong - 1) / kAlong);
    __builtin_memcpy(copy.scale_inv, to.scale_inv, blocks * sizeof(*to.scale_inv));
  });
  return finite;
}

/// Casts rows by their columns' multipliers, or their squares'.
template <class F>
void cast_fp8_columns(const BlockCast& cast, Tile tile, TileValues values, bool finite) {
  const BlockOutput& output = *cast.output;
  const bool squares = output.scaling_mode == ScalingMode::float8_block_2d;
  const bool rowwise = squares && output.rowwise.data != nullptr;
  const BlockPart& part = rowwise ? output.rowwise : output.columnwise;
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  const std::int64_t first = tile.rows.begin * cast.cols + tile.cols.begin;
  auto* const to = static_cast<std::uint8_t*>(part.data) + first;
  visit_fp8_mode(output, [&]<class To, int kAlong, class Scales>(const Scales&) {
    if (finite) return cast_by_columns<F, To, true>(rows, width, values, to, cast.cols);
    cast_by_columns<F, To, false>(rows, width, values, to, cast.cols);
  });
  if (!rowwise || output.columnwise.data == nullptr) return;
  auto* const copy = static_cast<std::uint8_t*>(output.columnwise.data) + first;
  for (std::int64_t r = 0; r < rows; ++r) {
    __builtin_memcpy(copy + r * cast.cols, to + r * cast.cols, static_cast<std::size_t>(width));
  }
}

}  // namespace tape8::cpu
