#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/element_formats.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/wide.hpp"

namespace tape8::cpu {

// Casts to FP8 with block scales.

inline constexpr float kLargestFloat = 3.40282347e38F;

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

/// Where one usage's part of a tile goes: FP8 data as it lies in the matrix, and scales, `stride`
/// to a row of them.
template <class To, class Stored>
struct TilePart {
  typename To::Storage* data;
  std::int64_t cols;  // of the matrix
  Stored* scale_inv;
  std::int64_t stride;
};

/// The part of a usage whose scales cover scale_rows x scale_cols values each.
template <class F, class To, class Stored>
TilePart<To, Stored> tile_part(const BlockCast& cast, const BlockPart& part, Tile tile,
                               std::int64_t scale_rows, std::int64_t scale_cols) {
  const std::int64_t stride = (cast.cols + scale_cols - 1) / scale_cols;
  return {
      .data = static_cast<typename To::Storage*>(part.data) + tile.rows.begin * cast.cols +
              tile.cols.begin,
      .cols = cast.cols,
      .scale_inv = static_cast<Stored*>(part.scale_inv) + tile.rows.begin / scale_rows * stride +
                   tile.cols.begin / scale_cols,
      .stride = stride,
  };
}

/// Goes along the rows of a tile in blocks of kAlong values.
template <class F, int kAlong>
class BlockCursor {
 public:
  BlockCursor(TileValues tile, std::int64_t width)
      : values_(tile.values), rest_(tile.stride - width), blocks_(width / kAlong) {}

  const float* values() const { return values_; }
  std::int64_t row() const { return row_; }
  std::int64_t block() const { return block_; }
  void next() {
    values_ += kAlong;
    if (++block_ < blocks_) return;
    values_ += rest_;
    block_ = 0;
    ++row_;
  }

 private:
  const float* values_;
  std::int64_t rest_, blocks_;
  std::int64_t row_ = 0, block_ = 0;
};

/// Calls body(cursor, multiplier) for each block of kAlong values along the tile's rows, `width`
/// whole blocks wide, having stored their scales. Sixteen blocks at a time, a lane each, get their
/// scales.
template <class F, int kAlong, class Scales, class Body>
[[gnu::always_inline]] inline void for_each_row_block(const Scales& scales, std::int64_t rows,
                                                      std::int64_t width, TileValues tile,
                                                      typename Scales::Stored* scale_inv,
                                                      std::int64_t scale_stride, const Body& body) {
  using Int = typename F::Int;
  const std::int64_t blocks = rows * (width / kAlong);
  BlockCursor<F, kAlong> ahead(tile, width), cursor(tile, width);
  for (std::int64_t first = 0; first < blocks; first += F::kLanes) {
    Int largest[F::kLanes];
    for (int i = 0; i < F::kLanes; ++i) {
      const float* values = ahead.values();
      largest[i] = magnitude(F::load(values));
      for (int lane = F::kLanes; lane < kAlong; lane += F::kLanes) {
        largest[i] = max(largest[i], magnitude(F::load(values + lane)));
      }
      if (first + i + 1 < blocks) ahead.next();
    }
    typename Scales::Stored stored[F::kLanes];
    float multipliers[F::kLanes];
    scales.template operator()<F>(reduce_max_each(largest), stored, F::kLanes).store(multipliers);
    for (int i = 0; i < F::kLanes && first + i < blocks; ++i) {
      scale_inv[cursor.row() * scale_stride + cursor.block()] = stored[i];
      body(cursor, multipliers[i]);
      cursor.next();
    }
  }
}

/// Blocks of kAlong values along the rows of a tile that is `width` columns wide.
template <class F, class To, int kAlong, class Scales>
[[gnu::flatten]] void cast_along_rows(const Scales& scales, std::int64_t rows, std::int64_t width,
                                      TileValues tile, TilePart<To, typename Scales::Stored> to) {
  constexpr int kVectors = kAlong / F::kLanes;
  using V = WideFloat < F, kVectors<F::kUnroll ? kVectors : F::kUnroll>;
  const std::int64_t padded = (width + kAlong - 1) / kAlong * kAlong;
  for_each_row_block<F, kAlong>(scales, rows, padded, tile, to.scale_inv, to.stride,
                                [&](const BlockCursor<F, kAlong>& at, float multiplier) {
                                  const std::int64_t col = at.block() * kAlong;
                                  typename To::Storage* data = to.data + at.row() * to.cols + col;
                                  for (int c = 0; c < kAlong && col + c < width; c += V::kLanes) {
                                    const V x = V::load(at.values() + c) * V(multiplier);
                                    store_lanes<V>(data + c, width - col - c,
                                                   [&](auto* place) { To::store(place, x); });
                                  }
                                });
}

/// Raises the amaxes of the tile's columns.
template <class F>
[[gnu::flatten]] void note_columns(std::int64_t rows, std::int64_t width, TileValues tile) {
  for_each_vector<F, F::kUnroll>(static_cast<int>(width), [&]<class V>(int c) {
    V seen = V::load(tile.column_amax + c);
    typename V::Int amax = bits(seen);
    for (std::int64_t r = 0; r < rows; ++r) {
      amax = max(amax, magnitude(V::load(tile.values + r * tile.stride + c)));
    }
    V::from_bits(amax).store(tile.column_amax + c);
  });
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

/// Casts a tile with a multiplier for each column.
template <class F, class To>
[[gnu::flatten]] void cast_by_columns(const float* multipliers, std::int64_t rows,
                                      std::int64_t width, TileValues tile,
                                      typename To::Storage* data, std::int64_t cols) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* values = tile.values + r * tile.stride;
    typename To::Storage* to = data + r * cols;
    for_each_vector<F, F::kUnroll>(static_cast<int>(width), [&]<class V>(int c) {
      const V x = V::load(values + c) * V::load(multipliers + c);
      store_lanes<V>(to + c, width - c, [&](auto* place) { To::store(place, x); });
    });
  }
}

/// Blocks of kAlong values along either axis: rows of them are cast as they come, columns when
/// there are kAlong rows.
template <class F, class To, int kAlong, class Scales>
void cast_rows_1d(const BlockCast& cast, const Scales& scales, Tile tile, TileValues values) {
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  const BlockPart& part = cast.output->rowwise;
  if (part.data == nullptr) return;
  cast_along_rows<F, To, kAlong>(
      scales, rows, width, values,
      tile_part<F, To, typename Scales::Stored>(cast, part, tile, 1, kAlong));
}

template <class F, class To, int kAlong, class Scales>
void cast_band_1d(const BlockCast& cast, const Scales& scales, Tile tile, TileValues values) {
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  const BlockPart& part = cast.output->columnwise;
  if (part.data == nullptr) return;
  const auto to = tile_part<F, To, typename Scales::Stored>(cast, part, tile, kAlong, 1);
  scale_columns<F>(scales, width, to.scale_inv, values.column_amax);
  cast_by_columns<F, To>(values.column_amax, rows, width, values, to.data, to.cols);
}

/// One block a square: the usages differ in nothing.
template <class F, class To, int kAlong, class Scales>
void cast_band_2d(const BlockCast& cast, const Scales& scales, Tile tile, TileValues values) {
  const std::int64_t rows = tile.rows.end - tile.rows.begin;
  const std::int64_t width = tile.cols.end - tile.cols.begin;
  const BlockOutput& output = *cast.output;
  const BlockPart& one = output.rowwise.data != nullptr ? output.rowwise : output.columnwise;
  const auto to = tile_part<F, To, typename Scales::Stored>(cast, one, tile, kAlong, kAlong);
  scale_squares<F, kAlong>(scales, width, to.scale_inv, values.column_amax);
  cast_by_columns<F, To>(values.column_amax, rows, width, values, to.data, to.cols);
  if (output.rowwise.data == nullptr || output.columnwise.data == nullptr) return;
  const auto other =
      tile_part<F, To, typename Scales::Stored>(cast, output.columnwise, tile, kAlong, kAlong);
  const auto blocks = static_cast<std::size_t>((width + kAlong - 1) / kAlong);
  __builtin_memcpy(other.scale_inv, to.scale_inv, blocks * sizeof(*to.scale_inv));
  for (std::int64_t r = 0; r < rows; ++r) {
    __builtin_memcpy(other.data + r * to.cols, to.data + r * to.cols,
                     static_cast<std::size_t>(width));
  }
}

/// Calls visit.template operator()<To>() with the FP8 format.
template <class Visit>
void visit_fp8(DType dtype, const Visit& visit) {
  if (dtype == DType::e5m2) return visit.template operator()<E5m2Format>();
  visit.template operator()<E4m3Format>();
}

template <class F>
void fp8_cast_rows(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  visit_fp8(output.dtype, [&]<class To>() {
    switch (output.scaling_mode) {
      case ScalingMode::mxfp8_1d:
        return cast_rows_1d<F, To, 32>(cast, Mxfp8Scales{To::kLargestValue}, tile, values);
      case ScalingMode::float8_block_1d:
        return cast_rows_1d<F, To, 128>(
            cast, Float8BlockScales{To::kLargestValue, output.power_of_2_scale}, tile, values);
      default:
        return;
    }
  });
  if (values.column_amax != nullptr) {
    note_columns<F>(tile.rows.end - tile.rows.begin, tile.cols.end - tile.cols.begin, values);
  }
}

template <class F>
void fp8_cast_band(const BlockCast& cast, Tile tile, TileValues values) {
  const BlockOutput& output = *cast.output;
  visit_fp8(output.dtype, [&]<class To>() {
    const Float8BlockScales scales{To::kLargestValue, output.power_of_2_scale};
    switch (output.scaling_mode) {
      case ScalingMode::mxfp8_1d:
        return cast_band_1d<F, To, 32>(cast, Mxfp8Scales{To::kLargestValue}, tile, values);
      case ScalingMode::float8_block_1d:
        return cast_band_1d<F, To, 128>(cast, scales, tile, values);
      default:
        return cast_band_2d<F, To, 128>(cast, scales, tile, values);
    }
  });
}

}  // namespace tape8::cpu
