#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tape8/core/export.hpp>

namespace tape8 {

/// Element types. The low-precision layouts and their casts are those of the OCP FP8 and MX
/// specifications: e4m3 is the "fn" form (largest 448, no Inf), e5m2 follows IEEE (largest 57344),
/// e2m1 packs two values a byte with the first in the low nibble, e8m0 is a power of two.
enum class DType : std::uint8_t {
  f64,
  f32,
  bf16,
  f16,
  e4m3,
  e5m2,
  e2m1,
  e8m0,
  i32,
  i64,
  u8,
  boolean,
};

/// Bits that one element takes in memory.
constexpr int bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 64;
    case DType::f32:
    case DType::i32:
      return 32;
    case DType::bf16:
    case DType::f16:
      return 16;
    case DType::e4m3:
    case DType::e5m2:
    case DType::e8m0:
    case DType::u8:
    case DType::boolean:
      return 8;
    case DType::e2m1:
      return 4;
  }
  return 0;
}

/// Types that ops compute on: f64, f32, bf16, f16.
constexpr bool is_compute(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

/// e4m3 and e5m2.
constexpr bool is_fp8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

/// i32, i64 and u8.
constexpr bool is_integer(DType dtype) {
  return dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u8;
}

/// Largest finite value of an 8-bit or 4-bit float format (448, 57344, 6); 0 for every other type.
constexpr float low_precision_max(DType dtype) {
  switch (dtype) {
    case DType::e4m3:
      return 448.0F;
    case DType::e5m2:
      return 57344.0F;
    case DType::e2m1:
      return 6.0F;
    case DType::f64:
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::e8m0:
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::boolean:
      return 0.0F;
  }
  return 0.0F;
}

/// "f32", "e4m3", ...; DType::boolean is "bool".
TAPE8_API std::string_view to_string(DType dtype);

/// C++ types that tensors take their values from and give them back as.
template <class T>
concept Element =
    std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, std::int32_t> ||
    std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::uint8_t> || std::is_same_v<T, bool>;

/// The DType whose memory is an array of T.
template <Element T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  return DType::boolean;
}

}  // namespace tape8
