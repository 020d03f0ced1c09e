#pragma once

#include <cstdint>

#include <tape8/core/dtype.hpp>

namespace tape8::cpu {

// How the float formats lie in memory: load and store of a vector V (Float or WideFloat) of f32.

inline constexpr std::int32_t kMagnitudeBits = 0x7FFFFFFF;
inline constexpr std::int32_t kInfinityBits = 0x7F800000;
inline constexpr std::int32_t kNanBits = 0x7FC00000;

/// |x|'s bits, which as integers are ordered like the values, a NaN above all.
template <class V>
[[gnu::always_inline]] inline typename V::Int magnitude(const V& x) {
  return bits(x) & typename V::Int(kMagnitudeBits);
}

struct F32Format {
  using Storage = float;
  static constexpr bool kScaled = false;

  template <class V>
  [[gnu::always_inline]] static V load(const float* p) {
    return V::load(p);
  }
  template <class V>
  [[gnu::always_inline]] static void store(float* p, const V& x) {
    x.store(p);
  }
};

struct Bf16Format {
  using Storage = std::uint16_t;
  static constexpr bool kScaled = false;

  template <class V>
  [[gnu::always_inline]] static V load(const std::uint16_t* p) {
    return V::from_bits(V::Int::load_u16(p) << 16);
  }
  /// Half of the last place, less one, plus the bit that stays last: ties go to even.
  template <class V>
  [[gnu::always_inline]] static void store(std::uint16_t* p, const V& x) {
    using Int = typename V::Int;
    const Int b = bits(x);
    const Int rounded = (b + Int(0x7FFF) + ((b >> 16) & Int(1))) >> 16;
    select(is_nan(x), Int(0x7FC0), rounded).store_u16(p);
  }
};

/// A float format of 8 or 16 bits that is narrower than f32 in exponent too. Values past `kLargest`
/// become it: the largest finite value where the format saturates, else the power of two whose code
/// is Inf.
template <class StorageType, int kExponentBits, int kMantissaBits, std::int32_t kLargest,
          std::int32_t kNan, bool kHasInfinity>
struct SmallFormat {
  using Storage = StorageType;
  static constexpr bool kScaled = sizeof(Storage) == 1;
  static constexpr unsigned kShift = 23 - kMantissaBits;
  static constexpr unsigned kSignShift = 31 - kExponentBits - kMantissaBits;
  static constexpr float kLargestValue = __builtin_bit_cast(float, kLargest);
  static constexpr std::int32_t kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::int32_t kCodeMagnitude = (1 << (kExponentBits + kMantissaBits)) - 1;
  static constexpr float kDecodeScale = kExponentBits == 2   ? 0x1p126F
                                        : kExponentBits == 4 ? 0x1p120F
                                                             : 0x1p112F;  // 2^(127 - kBias)
  static constexpr bool kHasSpecial = kExponentBits > 2;                  // Inf or NaN
  static constexpr std::int32_t kFirstSpecial =
      kHasInfinity ? ((1 << kExponentBits) - 1) << kMantissaBits : kNan;

  template <class V>
  [[gnu::always_inline]] static V load(const Storage* p) {
    return decode<V>(load_code<typename V::Int>(p));
  }

  /// The code, shifted to f32's exponent field, is the value times a power of two; denormals as
  /// well.
  template <class V>
  [[gnu::always_inline]] static V decode(const typename V::Int& code) {
    using Int = typename V::Int;
    const Int magnitude = code & Int(kCodeMagnitude);
    const V scaled = V::from_bits(magnitude << kShift) * V(kDecodeScale);
    Int value = bits(scaled);
    if constexpr (kHasSpecial) {
      const Int special = (magnitude << kShift) | Int(kInfinityBits);
      value = select(magnitude > Int(kFirstSpecial - 1), special, value);
    }
    return V::from_bits(value | ((code << kSignShift) & Int(~kMagnitudeBits)));
  }

  template <class V>
  [[gnu::always_inline]] static void store(Storage* p, const V& x) {
    store_code(p, encode(x));
  }

  /// The same for |x| that rounds to no more than the largest value.
  template <class V>
  [[gnu::always_inline]] static void store_in_range(Storage* p, const V& x) {
    if constexpr (kSignShift == 24) {
      store_in_range<V>(p, magnitude(x), bits(x));
    } else {
      store_code(p, encode(x));
    }
  }

  /// The same of 8-bit formats, from the bits of such an |x| and bits with its sign.
  template <class V>
  [[gnu::always_inline]] static void store_in_range(Storage* p, const typename V::Int& magnitude,
                                                    const typename V::Int& signs) {
    code_of<V>(magnitude).store_signed_u8(signs, p);
  }

  /// The nearest value's code, bits above it zero.
  template <class V>
  [[gnu::always_inline]] static typename V::Int encode(const V& x) {
    using Int = typename V::Int;
    return select(magnitude(x) > Int(kInfinityBits), Int(kNan), encode_number(x));
  }

  /// The same where x is not NaN.
  template <class V>
  [[gnu::always_inline]] static typename V::Int encode_number(const V& x) {
    using Int = typename V::Int;
    const Int code = code_of<V>(min(magnitude(x), Int(kLargest)));
    return select_bits(Int(kCodeMagnitude), code, bits(x) >> kSignShift);
  }

 private:
  /// The code in the low bits, anything above it.
  ///
  /// f32 addition rounds: next to 1.5 * 2^(e + 23 - mantissa bits) the last place is that of the
  /// format at exponent e, its denormals' for small e. The sum's low bits, with e's own, are the
  /// code.
  template <class V>
  [[gnu::always_inline]] static typename V::Int code_of(const typename V::Int& clamped) {
    using Int = typename V::Int;
    constexpr std::int32_t kFirstExponent =
        128 - kBias;  // of the smallest normal number, as in f32
    constexpr std::int32_t kRounder =
        (static_cast<std::int32_t>(kShift) << 23) + 0x400000 - (kFirstExponent << kMantissaBits);
    const Int exponent = max(clamped & Int(kInfinityBits), Int(kFirstExponent << 23));
    const V sum = V::from_bits(clamped) + V::from_bits(exponent + Int(kRounder));
    return bits(sum) + (exponent >> kShift);
  }

  template <class Int>
  [[gnu::always_inline]] static Int load_code(const std::uint8_t* p) {
    return Int::load_u8(p);
  }
  template <class Int>
  [[gnu::always_inline]] static Int load_code(const std::uint16_t* p) {
    return Int::load_u16(p);
  }
  template <class Int>
  [[gnu::always_inline]] static void store_code(std::uint8_t* p, const Int& code) {
    code.store_u8(p);
  }
  template <class Int>
  [[gnu::always_inline]] static void store_code(std::uint16_t* p, const Int& code) {
    code.store_u16(p);
  }
};

using F16Format = SmallFormat<std::uint16_t, 5, 10, 0x47800000, 0x7E00, true>;  // up to 2^16
using E4m3Format = SmallFormat<std::uint8_t, 4, 3, 0x43E00000, 0x7F, false>;    // up to 448
using E5m2Format = SmallFormat<std::uint8_t, 5, 2, 0x47600000, 0x7F, true>;     // up to 57344
using E2m1Format = SmallFormat<std::uint8_t, 2, 1, 0x40C00000, 0x7, false>;     // up to 6

/// Calls visit.template operator()<Format>() for a float type of 32 bits or less.
template <class Visit>
auto visit_format(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::bf16:
      return visit.template operator()<Bf16Format>();
    case DType::f16:
      return visit.template operator()<F16Format>();
    case DType::e4m3:
      return visit.template operator()<E4m3Format>();
    case DType::e5m2:
      return visit.template operator()<E5m2Format>();
    default:
      return visit.template operator()<F32Format>();
  }
}

}  // namespace tape8::cpu
