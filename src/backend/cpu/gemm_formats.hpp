#pragma once

#include <cstdint>

#include <tape8/core/dtype.hpp>

// Included by one translation unit an instruction set. All that it defines is a template on, or
// nested in, a type of that unit's anonymous namespace or is always inlined: the linker must not
// find a copy with AVX-512 code to keep for everybody. Branch-free, so that loops over it become
// vector code.

namespace tape8::cpu {

[[gnu::always_inline]] constexpr std::uint32_t float_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

[[gnu::always_inline]] constexpr float bits_float(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

inline constexpr std::uint32_t kSignBit = 0x80000000U;
inline constexpr std::uint32_t kInfinityBits = 0x7F800000U;

/// A float format of at most 16 bits with subnormals of its own. Codes above kLargest do not occur
/// as results of finite values; Inf is kInfinity, or saturates to kLargest.
template <class Storage, int kExponentBits, int kMantissaBits, std::uint32_t kLargest,
          std::uint32_t kInfinity, std::uint32_t kNan, bool kSaturates>
struct SmallFloat {
  using Code = Storage;

  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr int kSignShift = 31 - kExponentBits - kMantissaBits;
  static constexpr std::uint32_t kBias = (1U << (kExponentBits - 1)) - 1U;
  static constexpr std::uint32_t kRebias = 127U - kBias;
  static constexpr std::uint32_t kSmallestNormal = (kRebias + 1U) << 23;
  static constexpr std::uint32_t kMagnitude = (1U << (kExponentBits + kMantissaBits)) - 1U;
  // Its last place is one unit of the format's subnormals.
  static constexpr std::uint32_t kSubnormalMagic =
      (127U + 23U + 1U - kBias - static_cast<std::uint32_t>(kMantissaBits)) << 23;

  [[gnu::always_inline]] static constexpr float decode(std::uint32_t code) {
    const std::uint32_t magnitude = code & kMagnitude;
    const std::uint32_t sign = (code & ~kMagnitude) << kSignShift;
    const std::uint32_t normal = (magnitude << kShift) + (kRebias << 23);
    const float units = static_cast<float>(static_cast<std::int32_t>(magnitude));
    const std::uint32_t subnormal =
        float_bits(units * bits_float((kRebias + 1U - kMantissaBits) << 23));
    std::uint32_t bits = magnitude < (1U << kMantissaBits) ? subnormal : normal;
    bits = magnitude >= kInfinity ? kInfinityBits : bits;
    bits = magnitude > kInfinity || magnitude == kNan ? 0x7FC00000U : bits;
    return bits_float(bits | sign);
  }

  [[gnu::always_inline]] static std::uint32_t encode(float value) {
    const std::uint32_t bits = float_bits(value);
    const std::uint32_t magnitude = bits & ~kSignBit;
    const std::uint32_t half = (1U << (kShift - 1)) - 1U;
    const std::uint32_t rounded = magnitude + half + ((magnitude >> kShift) & 1U);
    const std::uint32_t normal = (rounded >> kShift) - (kRebias << kMantissaBits);
    const std::uint32_t subnormal =
        float_bits(bits_float(magnitude) + bits_float(kSubnormalMagic)) - kSubnormalMagic;
    std::uint32_t code = magnitude < kSmallestNormal ? subnormal : normal;
    const std::uint32_t overflow = kSaturates ? kLargest : kInfinity;
    code = code > kLargest ? overflow : code;
    code |= (bits & kSignBit) >> kSignShift;
    return magnitude > kInfinityBits ? kNan : code;
  }
};

/// The upper half of an f32.
struct Bf16Format {
  using Code = std::uint16_t;

  [[gnu::always_inline]] static float decode(std::uint32_t code) { return bits_float(code << 16); }

  [[gnu::always_inline]] static std::uint32_t encode(float value) {
    const std::uint32_t bits = float_bits(value);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    return (bits & ~kSignBit) > kInfinityBits ? 0x7FC0U : rounded;
  }
};

struct F32Format {
  using Code = float;

  [[gnu::always_inline]] static float decode(float value) { return value; }
  [[gnu::always_inline]] static float encode(float value) { return value; }
};

/// 2^(code - 127), the first of which is a denormal f32; the last code is NaN.
struct E8m0Format {
  using Code = std::uint8_t;

  [[gnu::always_inline]] static constexpr float decode(std::uint32_t code) {
    const std::uint32_t power = code == 0 ? 1U << 22 : code << 23;
    return bits_float(code == 255 ? 0x7FC00000U : power);
  }
};

using F16Format = SmallFloat<std::uint16_t, 5, 10, 0x7BFF, 0x7C00, 0x7E00, false>;
using E4m3Format = SmallFloat<std::uint8_t, 4, 3, 0x7E, 0x80, 0x7F, true>;
using E5m2Format = SmallFloat<std::uint8_t, 5, 2, 0x7B, 0x7C, 0x7F, true>;
/// Of the four bits of a value, two of which lie in a byte. No code is an Inf or a NaN.
using E2m1Format = SmallFloat<std::uint8_t, 2, 1, 7, 8, 8, true>;

template <class Format>
inline constexpr int kValuesPerCode = 1;
template <>
inline constexpr int kValuesPerCode<E2m1Format> = 2;

/// Value i of an array; where two lie in a byte the first has the lower bits.
template <class Format>
[[gnu::always_inline]] inline float decode_at(const typename Format::Code* p, std::int64_t i) {
  if constexpr (kValuesPerCode<Format> == 2) {
    const std::uint32_t codes = p[i / 2];
    return Format::decode(i % 2 == 0 ? codes & 0xFU : codes >> 4);
  } else {
    return Format::decode(p[i]);
  }
}

/// Calls visitor(Format{}) with an FP8 format.
template <class Visitor>
[[gnu::always_inline]] inline auto visit_fp8_format(DType dtype, const Visitor& visitor) {
  if (dtype == DType::e5m2) return visitor(E5m2Format{});
  return visitor(E4m3Format{});
}

/// The same with the format of a type whose values are exact in bf16.
template <class Visitor>
[[gnu::always_inline]] inline auto visit_narrow_format(DType dtype, const Visitor& visitor) {
  if (dtype == DType::e4m3) return visitor(E4m3Format{});
  if (dtype == DType::e5m2) return visitor(E5m2Format{});
  return visitor(Bf16Format{});
}

/// The same for f32 and f16 as well.
template <class Visitor>
[[gnu::always_inline]] inline auto visit_format(DType dtype, const Visitor& visitor) {
  if (dtype == DType::f32) return visitor(F32Format{});
  if (dtype == DType::f16) return visitor(F16Format{});
  return visit_narrow_format(dtype, visitor);
}

}  // namespace tape8::cpu
