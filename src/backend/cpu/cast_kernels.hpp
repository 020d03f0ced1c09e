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

template <class F>
AmaxBits larger(AmaxBits a, AmaxBits b) {
  return a > b ? a : b;
}

/// The largest magnitude of vectors of either width.
template <class F>
struct VectorAmax {
  using W = WideFloat<F, F::kUnroll>;
  typename W::Int wide{0};
  typename F::Int narrow{0};

  [[gnu::always_inline]] void add(const typename W::Int& magnitudes) {
    wide = max(wide, magnitudes);
  }
  [[gnu::always_inline]] void add(const typename F::Int& magnitudes) {
    narrow = max(narrow, magnitudes);
  }
  [[gnu::always_inline]] AmaxBits total() const {
    const AmaxBits a = reduce_max(wide);
    const AmaxBits b = reduce_max(narrow);
    return a > b ? a : b;
  }
};

/// Values begin, begin + 1, ... up to `end`, whole vectors of them, which value.operator()<V>(i)
/// gives: their magnitudes join the amax; times scale, encoded.
template <class F, class To, bool kAmax, class Value>
[[gnu::always_inline]] inline AmaxBits store_any(const Value& value, std::int64_t begin,
                                                 std::int64_t end, typename To::Storage* to,
                                                 float scale) {
  VectorAmax<F> amax;
  const auto store = [&]<class V>(std::int64_t i) {
    V x = value.template operator()<V>(i);
    if constexpr (kAmax) amax.add(magnitude(x));
    if constexpr (To::kScaled) x = x * V(scale);
    To::store(to + i, x);
  };
  for_each_vector<F, F::kUnroll>(begin, end, store);
  return kAmax ? amax.total() : 0;
}

/// The same; FP8 some vectors at a time, as if the format held all values, and once more where the
/// amax says that it does not.
template <class F, class To, bool kAmax, class Value>
[[gnu::always_inline]] inline AmaxBits store_vectors(const Value& value, std::int64_t count,
                                                     typename To::Storage* to, float scale) {
  constexpr std::int64_t kSome = 8 * WideFloat<F, F::kUnroll>::kLanes;
  if constexpr (!To::kScaled) {
    return store_any<F, To, kAmax>(value, 0, count, to, scale);
  } else {
    AmaxBits amax = 0;
    for (std::int64_t begin = 0; begin < count; begin += kSome) {
      const std::int64_t end = begin + kSome < count ? begin + kSome : count;
      VectorAmax<F> some_amax;
      for_each_vector<F, F::kUnroll>(begin, end, [&]<class V>(std::int64_t i) {
        const V x = value.template operator()<V>(i);
        const typename V::Int m = magnitude(x);
        some_amax.add(m);
        To::template store_in_range<V>(to + i, bits(V::from_bits(m) * V(scale)), bits(x));
      });
      AmaxBits some = some_amax.total();
      // False for a NaN.
      if (!(__builtin_bit_cast(float, some) * scale <= To::kLargestValue)) {
        some = store_any<F, To, true>(value, begin, end, to, scale);
      }
      amax = amax > some ? amax : some;
    }
    return amax;
  }
}

/// Values in memory, decoded and times scale_inv.
template <class From>
struct MemoryValues {
  const typename From::Storage* memory;
  float scale_inv;

  template <class V>
  [[gnu::always_inline]] V operator()(std::int64_t i) const {
    const V x = From::template load<V>(memory + i);
    if constexpr (From::kScaled) {
      return x * V(scale_inv);
    } else {
      return x;
    }
  }
};

/// From format to format.
template <class F, class From, class To, bool kAmax>
[[gnu::flatten]] AmaxBits convert(const typename From::Storage* from, typename To::Storage* to,
                                  std::int64_t count, float scale_inv, float scale) {
  const std::int64_t whole = count - count % F::kLanes;
  const AmaxBits amax =
      store_vectors<F, To, kAmax>(MemoryValues<From>{from, scale_inv}, whole, to, scale);
  if (whole == count) return amax;
  typename From::Storage last_from[F::kLanes] = {};
  typename To::Storage last_to[F::kLanes];
  const auto rest = static_cast<std::size_t>(count - whole);
  __builtin_memcpy(last_from, from + whole, rest * sizeof(*from));
  const AmaxBits last = store_any<F, To, kAmax>(MemoryValues<From>{last_from, scale_inv}, 0,
                                                F::kLanes, last_to, scale);
  __builtin_memcpy(to + whole, last_to, rest * sizeof(*to));
  return amax > last ? amax : last;
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

/// Writes `count` values, to the next whole vector, that value.operator()<V>(i) gives. They are a
/// copy, which no store can change.
template <class F, class Value>
[[gnu::flatten]] void write_block(Value value, int count, float* to) {
  for_each_vector<F, F::kUnroll>(
      count, [&]<class V>(int i) { value.template operator()<V>(i).store(to + i); });
}

/// The same as type To, and nothing past them; the amax of these alone.
template <class F, class To, class Value>
[[gnu::flatten]] AmaxBits store_values_as(Value value, int count, typename To::Storage* to,
                                          float scale) {
  const int whole = count - count % F::kLanes;
  const AmaxBits amax = store_vectors<F, To, true>(value, whole, to, scale);
  if (whole == count) return amax;
  float last[F::kLanes];
  value.template operator()<F>(whole).store(last);
  return larger<F>(amax,
                   convert<F, F32Format, To, true>(last, to + whole, count - whole, 1.0F, scale));
}

template <class F, class Value>
[[gnu::flatten]] AmaxBits amax_of_values(Value value, int count) {
  const int whole = count - count % F::kLanes;
  VectorAmax<F> amax;
  for_each_vector<F, F::kUnroll>(
      whole, [&]<class V>(int i) { amax.add(magnitude(value.template operator()<V>(i))); });
  if (whole == count) return amax.total();
  float last[F::kLanes];
  value.template operator()<F>(whole).store(last);
  return larger<F>(amax.total(), block_amax<F>(last, count - whole));
}

/// Stores the values as values [offset, offset + count) of y.
template <class F, class Value>
AmaxBits store_values(const Value& value, const Output& y, std::int64_t offset, int count) {
  if (y.data == nullptr) return y.amax == nullptr ? 0 : amax_of_values<F>(value, count);
  return visit_format(y.dtype, [&]<class To>() {
    auto* to = static_cast<typename To::Storage*>(y.data) + offset;
    return store_values_as<F, To>(value, count, to, factor<F>(y.scale));
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
