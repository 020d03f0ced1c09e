#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tape8::cpu::portable {

inline constexpr int kLanes = 16;

struct Mask {
  bool v[kLanes];
};

/// 16 lanes of int32. Shifts are logical; sums wrap.
struct Int {
  using Mask = portable::Mask;
  std::uint32_t v[kLanes];

  Int() = default;
  explicit Int(std::int32_t value) {
    for (auto& lane : v) lane = static_cast<std::uint32_t>(value);
  }

  static Int load_u8(const std::uint8_t* p) {
    return generate([&](int i) { return std::uint32_t{p[i]}; });
  }
  static Int load_u16(const std::uint16_t* p) {
    return generate([&](int i) { return std::uint32_t{p[i]}; });
  }
  /// Half bytes, the first of a byte low.
  static Int load_u4(const std::uint8_t* p) {
    return generate([&](int i) { return (std::uint32_t{p[i / 2]} >> (i % 2 * 4)) & 15U; });
  }
  /// Stores the low 8 or 16 bits of each lane.
  void store_u8(std::uint8_t* p) const {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::uint8_t>(v[i]);
  }
  void store_u16(std::uint16_t* p) const {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::uint16_t>(v[i]);
  }
  /// Stores the low 7 bits of each lane, below the highest of `signs`.
  void store_signed_u8(const Int& signs, std::uint8_t* p) const {
    select_bits(Int(0x7F), *this, signs >> 24).store_u8(p);
  }
  /// Stores lanes below 16 as half bytes, the first of a byte low.
  void store_u4(std::uint8_t* p) const {
    for (int i = 0; i < kLanes; i += 2) {
      p[i / 2] = static_cast<std::uint8_t>(v[i] | v[i + 1] << 4U);
    }
  }
  /// Stores a's and b's lanes by turns.
  static void store_by_turns(Int a, Int b, std::int32_t* p) {
    for (int i = 0; i < kLanes; ++i) {
      p[2 * i] = a.lane(i);
      p[2 * i + 1] = b.lane(i);
    }
  }

  friend Int operator+(Int a, Int b) {
    return generate([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend Int operator-(Int a, Int b) {
    return generate([&](int i) { return a.v[i] - b.v[i]; });
  }
  friend Int operator&(Int a, Int b) {
    return generate([&](int i) { return a.v[i] & b.v[i]; });
  }
  friend Int operator|(Int a, Int b) {
    return generate([&](int i) { return a.v[i] | b.v[i]; });
  }
  friend Int operator<<(Int a, unsigned n) {
    return generate([&](int i) { return a.v[i] << n; });
  }
  friend Int operator>>(Int a, unsigned n) {
    return generate([&](int i) { return a.v[i] >> n; });
  }
  friend Int max(Int a, Int b) {
    return generate([&](int i) { return a.lane(i) > b.lane(i) ? a.v[i] : b.v[i]; });
  }
  friend Int min(Int a, Int b) {
    return generate([&](int i) { return a.lane(i) < b.lane(i) ? a.v[i] : b.v[i]; });
  }
  friend Mask operator>(Int a, Int b) {
    Mask m;
    for (int i = 0; i < kLanes; ++i) m.v[i] = a.lane(i) > b.lane(i);
    return m;
  }
  friend Int select(Mask m, Int a, Int b) {
    return generate([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
  }
  /// Bits of a where mask has ones, of b elsewhere.
  friend Int select_bits(Int mask, Int a, Int b) {
    return generate([&](int i) { return (mask.v[i] & a.v[i]) | (~mask.v[i] & b.v[i]); });
  }
  friend std::int32_t reduce_max(Int a) {
    std::int32_t largest = a.lane(0);
    for (int i = 1; i < kLanes; ++i) largest = a.lane(i) > largest ? a.lane(i) : largest;
    return largest;
  }
  /// Lane i is the largest lane of rows[i].
  friend Int reduce_max_each(const Int (&rows)[kLanes]) {
    return generate([&](int i) { return static_cast<std::uint32_t>(reduce_max(rows[i])); });
  }

  template <class Lane>
  static Int generate(const Lane& lane_value) {
    Int r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = lane_value(i);
    return r;
  }

 private:
  std::int32_t lane(int i) const { return static_cast<std::int32_t>(v[i]); }
};

/// 8 lanes of uint64.
struct Long {
  static constexpr int kLanes = 8;
  /// Which value of eight to put in each lane for store_pairs to store them in order.
  static constexpr std::uint64_t kPairOrder[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7};
  std::uint64_t v[kLanes];

  Long() = default;
  explicit Long(std::uint64_t value) {
    for (auto& lane : v) lane = value;
  }

  static Long load(const std::uint64_t* p) {
    return generate([&](int i) { return p[i]; });
  }

  friend Long operator+(Long a, Long b) {
    return generate([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend Long operator^(Long a, Long b) {
    return generate([&](int i) { return a.v[i] ^ b.v[i]; });
  }
  friend Long operator>>(Long a, unsigned n) {
    return generate([&](int i) { return a.v[i] >> n; });
  }
  /// The product of the low halves.
  friend Long multiply_low(Long a, Long b) {
    return generate([&](int i) { return low(a, i) * low(b, i); });
  }
  /// The low half of a, and that of b above it.
  friend Long join_low(Long a, Long b) {
    return generate([&](int i) { return low(a, i) | b.v[i] << 32U; });
  }
  /// Stores lanes of a and b by turns.
  friend void store_pairs(Long a, Long b, std::uint16_t* p) {
    for (int i = 0; i < kLanes; ++i) {
      for (int k = 0; k < 4; ++k) {
        p[8 * i + k] = static_cast<std::uint16_t>(a.v[i] >> (16 * k));
        p[8 * i + 4 + k] = static_cast<std::uint16_t>(b.v[i] >> (16 * k));
      }
    }
  }

 private:
  template <class Lane>
  static Long generate(const Lane& lane_value) {
    Long r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = lane_value(i);
    return r;
  }
  static std::uint64_t low(const Long& a, int i) { return a.v[i] & 0xFFFFFFFFU; }
};

/// 16 lanes of f32. max and min give b where a lane of a or b is NaN.
struct Float {
  using Int = portable::Int;
  using Mask = portable::Mask;
  using Long = portable::Long;
  static constexpr int kLanes = portable::kLanes;
  /// Vectors that arithmetic-bound loops work on at a time.
  static constexpr int kUnroll = 1;
  float v[kLanes];

  Float() = default;
  explicit Float(float value) {
    for (auto& lane : v) lane = value;
  }

  static Float load(const float* p) {
    return generate([&](int i) { return p[i]; });
  }
  void store(float* p) const {
    for (int i = 0; i < kLanes; ++i) p[i] = v[i];
  }
  static Float from_bits(Int a) {
    return generate([&](int i) { return std::bit_cast<float>(a.v[i]); });
  }

  friend Float operator+(Float a, Float b) {
    return generate([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend Float operator-(Float a, Float b) {
    return generate([&](int i) { return a.v[i] - b.v[i]; });
  }
  friend Float operator*(Float a, Float b) {
    return generate([&](int i) { return a.v[i] * b.v[i]; });
  }
  friend Float operator/(Float a, Float b) {
    return generate([&](int i) { return a.v[i] / b.v[i]; });
  }
  friend Float fma(Float a, Float b, Float c) {
    return generate([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
  }
  friend Float sqrt(Float a) {
    return generate([&](int i) { return std::sqrt(a.v[i]); });
  }
  friend Float max(Float a, Float b) {
    return generate([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  friend Float min(Float a, Float b) {
    return generate([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  friend Mask operator<=(Float a, Float b) {
    Mask m;
    for (int i = 0; i < kLanes; ++i) m.v[i] = a.v[i] <= b.v[i];
    return m;
  }
  friend Mask is_nan(Float a) {
    Mask m;
    for (int i = 0; i < kLanes; ++i) m.v[i] = a.v[i] != a.v[i];
    return m;
  }
  friend Float select(Mask m, Float a, Float b) {
    return generate([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
  }
  friend Int bits(Float a) {
    return Int::generate([&](int i) { return std::bit_cast<std::uint32_t>(a.v[i]); });
  }
  /// a * 2^n, rounded once, for a near 1 and a whole n in [-250, 250].
  friend Float scale_exponent(Float a, Float n) {
    return generate([&](int i) {
      // Two factors, each a normal number: the first product is exact, the second rounds. A NaN in
      // n comes with one in a.
      const int whole = n.v[i] == n.v[i] ? static_cast<int>(n.v[i]) : 0;
      const int first = whole / 2;
      return a.v[i] * power_of_two(first) * power_of_two(whole - first);
    });
  }

  /// Halves are added until one lane is left: lane i and i + 8, i + 4, i + 2, i + 1.
  friend float reduce_add(Float a) {
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
    }
    return a.v[0];
  }
  /// Lane i is reduce_add(rows[i]).
  friend Float reduce_add_each(const Float (&rows)[kLanes]) {
    float sums[kLanes];
    for (int i = 0; i < kLanes; ++i) sums[i] = reduce_add(rows[i]);
    return load(sums);
  }
  friend float reduce_max(Float a) {
    float largest = a.v[0];
    for (int i = 1; i < kLanes; ++i) largest = a.v[i] > largest ? a.v[i] : largest;
    return largest;
  }

 private:
  template <class Lane>
  static Float generate(const Lane& lane_value) {
    Float r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = lane_value(i);
    return r;
  }
  static float power_of_two(int n) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23U);
  }
};

}  // namespace tape8::cpu::portable
