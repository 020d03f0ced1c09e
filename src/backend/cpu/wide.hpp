#pragma once

#include <cstdint>

namespace tape8::cpu {

// N vectors that go through each operation together, so that the processor always has N independent
// chains to work on. Every operation is that of the instruction set's own Float, Int or Mask.

template <class M, int N>
struct WideMask {
  M part[N];
};

/// A result whose part i is part_value(i).
template <class W, int N, class PartValue>
[[gnu::always_inline]] inline W each(const PartValue& part_value) {
  W result;
  for (int i = 0; i < N; ++i) result.part[i] = part_value(i);
  return result;
}

template <class V, int N>
struct WideInt {
  using Mask = WideMask<typename V::Mask, N>;
  static constexpr int kPartLanes = 16;
  V part[N];

  WideInt() = default;
  explicit WideInt(std::int32_t value) {
    for (V& p : part) p = V(value);
  }

  static WideInt load_u8(const std::uint8_t* p) {
    return each<WideInt, N>([&](int i) { return V::load_u8(p + kPartLanes * i); });
  }
  static WideInt load_u16(const std::uint16_t* p) {
    return each<WideInt, N>([&](int i) { return V::load_u16(p + kPartLanes * i); });
  }
  /// All parts at once where the instruction set has a better way to do so.
  void store_u8(std::uint8_t* p) const {
    if constexpr (requires { V::store_u8(part, p); }) {
      V::store_u8(part, p);
    } else {
      for (int i = 0; i < N; ++i) part[i].store_u8(p + kPartLanes * i);
    }
  }
  void store_signed_u8(const WideInt& signs, std::uint8_t* p) const {
    if constexpr (requires { V::store_signed_u8(part, signs.part, p); }) {
      V::store_signed_u8(part, signs.part, p);
    } else {
      for (int i = 0; i < N; ++i) part[i].store_signed_u8(signs.part[i], p + kPartLanes * i);
    }
  }
  void store_u16(std::uint16_t* p) const {
    if constexpr (requires { V::store_u16(part, p); }) {
      V::store_u16(part, p);
    } else {
      for (int i = 0; i < N; ++i) part[i].store_u16(p + kPartLanes * i);
    }
  }

  friend WideInt operator+(const WideInt& a, const WideInt& b) {
    return each<WideInt, N>([&](int i) { return a.part[i] + b.part[i]; });
  }
  friend WideInt operator-(const WideInt& a, const WideInt& b) {
    return each<WideInt, N>([&](int i) { return a.part[i] - b.part[i]; });
  }
  friend WideInt operator&(const WideInt& a, const WideInt& b) {
    return each<WideInt, N>([&](int i) { return a.part[i] & b.part[i]; });
  }
  friend WideInt operator|(const WideInt& a, const WideInt& b) {
    return each<WideInt, N>([&](int i) { return a.part[i] | b.part[i]; });
  }
  friend WideInt operator<<(const WideInt& a, unsigned n) {
    return each<WideInt, N>([&](int i) { return a.part[i] << n; });
  }
  friend WideInt operator>>(const WideInt& a, unsigned n) {
    return each<WideInt, N>([&](int i) { return a.part[i] >> n; });
  }
  friend WideInt max(const WideInt& a, const WideInt& b) {
    return each<WideInt, N>([&](int i) { return max(a.part[i], b.part[i]); });
  }
  friend WideInt min(const WideInt& a, const WideInt& b) {
    return each<WideInt, N>([&](int i) { return min(a.part[i], b.part[i]); });
  }
  friend Mask operator>(const WideInt& a, const WideInt& b) {
    return each<Mask, N>([&](int i) { return a.part[i] > b.part[i]; });
  }
  friend WideInt select(const Mask& m, const WideInt& a, const WideInt& b) {
    return each<WideInt, N>([&](int i) { return select(m.part[i], a.part[i], b.part[i]); });
  }
  friend WideInt select_bits(const WideInt& mask, const WideInt& a, const WideInt& b) {
    return each<WideInt, N>([&](int i) { return select_bits(mask.part[i], a.part[i], b.part[i]); });
  }
  friend std::int32_t reduce_max(const WideInt& a) {
    V largest = a.part[0];
    for (int i = 1; i < N; ++i) largest = max(largest, a.part[i]);
    return reduce_max(largest);
  }
};

template <class V, int N>
struct WideFloat {
  using Int = WideInt<typename V::Int, N>;
  using Mask = WideMask<typename V::Mask, N>;
  static constexpr int kParts = N;
  static constexpr int kLanes = V::kLanes * N;
  V part[N];

  WideFloat() = default;
  explicit WideFloat(float value) {
    for (V& p : part) p = V(value);
  }

  static WideFloat load(const float* p) {
    return each<WideFloat, N>([&](int i) { return V::load(p + V::kLanes * i); });
  }
  void store(float* p) const {
    for (int i = 0; i < N; ++i) part[i].store(p + V::kLanes * i);
  }
  static WideFloat from_bits(const Int& a) {
    return each<WideFloat, N>([&](int i) { return V::from_bits(a.part[i]); });
  }

  friend WideFloat operator+(const WideFloat& a, const WideFloat& b) {
    return each<WideFloat, N>([&](int i) { return a.part[i] + b.part[i]; });
  }
  friend WideFloat operator-(const WideFloat& a, const WideFloat& b) {
    return each<WideFloat, N>([&](int i) { return a.part[i] - b.part[i]; });
  }
  friend WideFloat operator*(const WideFloat& a, const WideFloat& b) {
    return each<WideFloat, N>([&](int i) { return a.part[i] * b.part[i]; });
  }
  friend WideFloat operator/(const WideFloat& a, const WideFloat& b) {
    return each<WideFloat, N>([&](int i) { return a.part[i] / b.part[i]; });
  }
  friend WideFloat fma(const WideFloat& a, const WideFloat& b, const WideFloat& c) {
    return each<WideFloat, N>([&](int i) { return fma(a.part[i], b.part[i], c.part[i]); });
  }
  friend WideFloat sqrt(const WideFloat& a) {
    return each<WideFloat, N>([&](int i) { return sqrt(a.part[i]); });
  }
  friend WideFloat max(const WideFloat& a, const WideFloat& b) {
    return each<WideFloat, N>([&](int i) { return max(a.part[i], b.part[i]); });
  }
  friend WideFloat min(const WideFloat& a, const WideFloat& b) {
    return each<WideFloat, N>([&](int i) { return min(a.part[i], b.part[i]); });
  }
  friend Mask operator<=(const WideFloat& a, const WideFloat& b) {
    return each<Mask, N>([&](int i) { return a.part[i] <= b.part[i]; });
  }
  friend Mask is_nan(const WideFloat& a) {
    return each<Mask, N>([&](int i) { return is_nan(a.part[i]); });
  }
  friend WideFloat select(const Mask& m, const WideFloat& a, const WideFloat& b) {
    return each<WideFloat, N>([&](int i) { return select(m.part[i], a.part[i], b.part[i]); });
  }
  friend Int bits(const WideFloat& a) {
    return each<Int, N>([&](int i) { return bits(a.part[i]); });
  }
  friend WideFloat scale_exponent(const WideFloat& a, const WideFloat& n) {
    return each<WideFloat, N>([&](int i) { return scale_exponent(a.part[i], n.part[i]); });
  }
};

/// Calls body.template operator()<V>(i) for i = begin, ... to cover [begin, end) in vectors: N at a
/// time while they last, then one by one. The last may reach past the end.
template <class F, int N, class Index, class Body>
[[gnu::always_inline]] inline void for_each_vector(Index begin, Index end, const Body& body) {
  Index i = begin;
  if constexpr (N > 1) {
    using W = WideFloat<F, N>;
    for (; i + W::kLanes <= end; i += W::kLanes) body.template operator()<W>(i);
  }
  for (; i < end; i += F::kLanes) body.template operator()<F>(i);
}

template <class F, int N, class Body>
[[gnu::always_inline]] inline void for_each_vector(int count, const Body& body) {
  for_each_vector<F, N>(0, count, body);
}

/// A sum over vectors: four of 16 lanes, taken in turn, then added as a tree. Which value goes
/// where depends on its place alone, so every instruction set gives the same bits.
template <class F>
class RowSum {
 public:
  using Wide = WideFloat<F, 4>;

  /// Of four vectors, or of the one that is part kPart of the last, incomplete four.
  template <int kPart>
  [[gnu::always_inline]] void add(const Wide& value) {
    lanes_ = lanes_ + value;
  }
  template <int kPart>
  [[gnu::always_inline]] void add(const F& value) {
    last_.part[kPart] = value;
  }
  template <int kPart>
  [[gnu::always_inline]] void add_product(const Wide& a, const Wide& b) {
    lanes_ = fma(a, b, lanes_);
  }
  template <int kPart>
  [[gnu::always_inline]] void add_product(const F& a, const F& b) {
    last_.part[kPart] = a * b;
  }
  /// 16 sums, which reduce_add() makes one of.
  [[gnu::always_inline]] F lanes() const {
    const Wide sums = lanes_ + last_;
    return (sums.part[0] + sums.part[1]) + (sums.part[2] + sums.part[3]);
  }
  float total() const { return reduce_add(lanes()); }

 private:
  Wide lanes_{0.0F};
  Wide last_{0.0F};  // apart, or the compiler keeps the others in memory
};

/// Calls body.template operator()<V, kPart>(i) for vectors that a RowSum adds up: as
/// for_each_vector() does, kPart being where a single one belongs.
template <class F, class Body>
[[gnu::always_inline]] inline void for_each_summed(int count, const Body& body) {
  using Wide = typename RowSum<F>::Wide;
  int i = 0;
  for (; i + Wide::kLanes <= count; i += Wide::kLanes) body.template operator()<Wide, 0>(i);
  if (i < count) body.template operator()<F, 0>(i);
  if (i + F::kLanes < count) body.template operator()<F, 1>(i + F::kLanes);
  if (i + 2 * F::kLanes < count) body.template operator()<F, 2>(i + 2 * F::kLanes);
  if (i + 3 * F::kLanes < count) body.template operator()<F, 3>(i + 3 * F::kLanes);
}

}  // namespace tape8::cpu
