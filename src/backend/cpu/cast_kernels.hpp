#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/element_formats.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/wide.hpp"

namespace tape8::cpu {

// Conversions between memory formats and f32, and the ops that are little more.
//
// The kernels work on blocks of a row: load_block, some passes over f32 in the first-level cache,
// store_block. Blocks are padded to whole vectors. Every function is a template on the vector F,
// also where it has no need of one: so each instruction set has a copy of its own (kernels.hpp).
// Those that hold a loop over vectors are flattened, as a call for each vector would cost more than
// the vector.

inline constexpr int kBlock = 512;

/// Room for one block.
struct alignas(64) Block {
  float values[kBlock];
};

/// Values in the block that begins at `begin`.
template <class F>
int block_size(std::int64_t begin, std::int64_t end, std::int64_t largest) {
  return static_cast<int>(end - begin < largest ? end - begin : largest);
}

/// Fills what lies between `count` and the next whole vector.
template <class F>
void fill_tail(float* block, int count, float value) {
  for (int i = count; i % F::kLanes != 0; ++i) block[i] = value;
}

/// One vector's way from format to format: decoded, times scale_inv; its magnitudes join the amax;
/// times scale, encoded.
template <class V, class From, class To, bool kAmax>
[[gnu::always_inline]] inline void convert_vector(const typename From::Storage* from,
                                                  typename To::Storage* to, float scale_inv,
                                                  float scale, typename V::Int& amax) {
  V x = From::template load<V>(from);
  if constexpr (From::kScaled) x = x * V(scale_inv);
  if constexpr (kAmax) amax = max(amax, bits(x) & typename V::Int(kMagnitudeBits));
  if constexpr (To::kScaled) x = x * V(scale);
  To::store(to, x);
}

/// The same to FP8 for values that the format holds, whose product with the scale has the sign that
/// they have.
template <class V, class From, class To>
[[gnu::always_inline]] inline void convert_vector_in_range(const typename From::Storage* from,
                                                           typename To::Storage* to,
                                                           float scale_inv, float scale,
                                                           typename V::Int& amax) {
  V x = From::template load<V>(from);
  if constexpr (From::kScaled) x = x * V(scale_inv);
  const typename V::Int m = magnitude(x);
  amax = max(amax, m);
  To::template store_in_range<V>(to, bits(V::from_bits(m) * V(scale)), bits(x));
}

/// `count` values, whatever they are.
template <class F, class From, class To, bool kAmax>
[[gnu::flatten]] AmaxBits convert_any(const typename From::Storage* from, typename To::Storage* to,
                                      std::int64_t count, float scale_inv, float scale) {
  using W = WideFloat<F, F::kUnroll>;
  typename W::Int wide_amax(0);
  typename F::Int amax(0);
  std::int64_t i = 0;
  for (; i + W::kLanes <= count; i += W::kLanes) {
    convert_vector<W, From, To, kAmax>(from + i, to + i, scale_inv, scale, wide_amax);
  }
  for (; i + F::kLanes <= count; i += F::kLanes) {
    convert_vector<F, From, To, kAmax>(from + i, to + i, scale_inv, scale, amax);
  }
  if (i < count) {
    typename From::Storage last_from[F::kLanes] = {};
    typename To::Storage last_to[F::kLanes];
    const auto rest = static_cast<std::size_t>(count - i);
    __builtin_memcpy(last_from, from + i, rest * sizeof(*from));
    convert_vector<F, From, To, kAmax>(last_from, last_to, scale_inv, scale, amax);
    __builtin_memcpy(to + i, last_to, rest * sizeof(*to));
  }
  const AmaxBits wide = reduce_max(wide_amax);
  const AmaxBits narrow = reduce_max(amax);
  return wide > narrow ? wide : narrow;
}

/// The same to FP8, some vectors at a time: as if the format held all values, and once more where
/// the amax says that it does not.
template <class F, class From, class To>
[[gnu::flatten]] AmaxBits convert_to_fp8(const typename From::Storage* from,
                                         typename To::Storage* to, std::int64_t count,
                                         float scale_inv, float scale) {
  using W = WideFloat<F, F::kUnroll>;
  constexpr std::int64_t kSome = 8 * W::kLanes;
  AmaxBits amax = 0;
  std::int64_t i = 0;
  for (; i + kSome <= count; i += kSome) {
    typename W::Int some_amax(0);
    for (std::int64_t j = i; j < i + kSome; j += W::kLanes) {
      convert_vector_in_range<W, From, To>(from + j, to + j, scale_inv, scale, some_amax);
    }
    const AmaxBits some = reduce_max(some_amax);
    // False for a NaN.
    if (__builtin_bit_cast(float, some) * scale <= To::kLargestValue) {
      amax = amax > some ? amax : some;
    } else {
      const AmaxBits any =
          convert_any<F, From, To, true>(from + i, to + i, kSome, scale_inv, scale);
      amax = amax > any ? amax : any;
    }
  }
  const AmaxBits rest =
      convert_any<F, From, To, true>(from + i, to + i, count - i, scale_inv, scale);
  return amax > rest ? amax : rest;
}

template <class F, class From, class To, bool kAmax>
AmaxBits convert(const typename From::Storage* from, typename To::Storage* to, std::int64_t count,
                 float scale_inv, float scale) {
  if constexpr (To::kScaled) {
    return convert_to_fp8<F, From, To>(from, to, count, scale_inv, scale);
  } else {
    return convert_any<F, From, To, kAmax>(from, to, count, scale_inv, scale);
  }
}

template <class F, class Factor>
float factor(const Factor* scale) {
  return scale == nullptr ? 1.0F : scale->value;
}

/// Values [offset, offset + count) of x as f32; zeros to the next whole vector.
template <class F>
void load_block(const Input& x, std::int64_t offset, int count, float* block) {
  visit_format(x.dtype, [&]<class From>() {
    const auto* from = static_cast<const typename From::Storage*>(x.data) + offset;
    convert<F, From, F32Format, false>(from, block, count, factor<F>(x.scale_inv), 1.0F);
  });
  fill_tail<F>(block, count, 0.0F);
}

template <class F>
[[gnu::flatten]] AmaxBits block_amax(float* block, int count) {
  using Int = typename F::Int;
  fill_tail<F>(block, count, 0.0F);
  Int amax(0);
  for (int i = 0; i < count; i += F::kLanes) {
    amax = max(amax, bits(F::load(block + i)) & Int(kMagnitudeBits));
  }
  return reduce_max(amax);
}

/// Stores a block as values [offset, offset + count) of y.
template <class F>
AmaxBits store_block(float* block, const Output& y, std::int64_t offset, int count) {
  if (y.data == nullptr) return y.amax == nullptr ? 0 : block_amax<F>(block, count);
  return visit_format(y.dtype, [&]<class To>() {
    auto* to = static_cast<typename To::Storage*>(y.data) + offset;
    return convert<F, F32Format, To, true>(block, to, count, 1.0F, factor<F>(y.scale));
  });
}

/// Copies a block, and nothing past it.
template <class F>
void copy_block(const float* block, int count, float* to) {
  convert<F, F32Format, F32Format, false>(block, to, count, 1.0F, 1.0F);
}

/// sums[i] += block[i] to the next whole vector, where the block holds zeros.
template <class F>
[[gnu::flatten]] void add_block(const float* block, int count, float* sums) {
  for_each_vector<F, F::kUnroll>(
      count, [&]<class V>(int i) { (V::load(sums + i) + V::load(block + i)).store(sums + i); });
}

/// Sets row sums to zero, to the next whole vector.
template <class F>
void clear_sums(float* sums, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += F::kLanes) F(0.0F).store(sums + i);
}

template <class F>
AmaxBits larger(AmaxBits a, AmaxBits b) {
  return a > b ? a : b;
}

/// Calls body(row, column, count) for each block of the tile, in row order.
template <class F, class Body>
void for_each_row_part(const Tile& tile, const Body& body) {
  for (std::int64_t r = tile.rows.begin; r < tile.rows.end; ++r) {
    for (std::int64_t c = tile.cols.begin; c < tile.cols.end; c += kBlock) {
      body(r, c, block_size<F>(c, tile.cols.end, kBlock));
    }
  }
}

/// Where a matrix's element (r, c) lies among the values of its tile.
template <class F>
float* tile_place(const TileValues& values, const Tile& tile, std::int64_t r, std::int64_t c) {
  return values.values + (r - tile.rows.begin) * values.stride + (c - tile.cols.begin);
}

/// Calls body(offset in the matrix, column, count) for each block of the tile, in row order; the
/// largest of what it returns.
template <class F, class Body>
AmaxBits for_each_block(const Tile& tile, std::int64_t cols, const Body& body) {
  AmaxBits amax = 0;
  for_each_row_part<F>(tile, [&](std::int64_t r, std::int64_t c, int count) {
    amax = larger<F>(amax, body(r * cols + c, c, count));
  });
  return amax;
}

template <class F>
AmaxBits cast_with_sums(const CastArgs& args, const Tile& tile, float* dbias) {
  clear_sums<F>(dbias, args.cols);
  return for_each_block<F>(tile, args.cols, [&](std::int64_t offset, std::int64_t c, int count) {
    Block x;
    load_block<F>(args.x, offset, count, x.values);
    add_block<F>(x.values, count, dbias + c);
    return store_block<F>(x.values, args.y, offset, count);
  });
}

template <class F>
AmaxBits amax(const Input& x, Range elements) {
  return for_each_block<F>({{0, 1}, elements}, 0, [&](std::int64_t, std::int64_t at, int count) {
    Block block;
    load_block<F>(x, at, count, block.values);
    return block_amax<F>(block.values, count);
  });
}

/// Without dbias the tile is one row.
template <class F>
AmaxBits cast(const CastArgs& args, Tile tile, float* dbias) {
  if (dbias != nullptr) return cast_with_sums<F>(args, tile, dbias);
  if (args.y.data == nullptr) return amax<F>(args.x, tile.cols);
  const std::int64_t count = tile.cols.end - tile.cols.begin;
  return visit_format(args.x.dtype, [&]<class From>() {
    const auto* from = static_cast<const typename From::Storage*>(args.x.data) + tile.cols.begin;
    return visit_format(args.y.dtype, [&]<class To>() {
      auto* to = static_cast<typename To::Storage*>(args.y.data) + tile.cols.begin;
      return convert<F, From, To, true>(from, to, count, factor<F>(args.x.scale_inv),
                                        factor<F>(args.y.scale));
    });
  });
}

}  // namespace tape8::cpu
