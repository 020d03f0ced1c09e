#include <cmath>

#include "backend/cpu/gemm_kernels.hpp"
#include "backend/cpu/gemm_pack.hpp"
#include "backend/cpu/gemm_tile.hpp"

namespace tape8::cpu {
namespace {

constexpr float kSmallestNormal = 0x1p-126F;

float flush_input(float value) {
  return std::fabs(value) < kSmallestNormal ? std::copysign(0.0F, value) : value;
}

/// True if a * b + c is below the smallest normal number once it is rounded to 24 bits whatever its
/// exponent, which is how x86 decides. The product of bf16 values is exact in f64, and so is their
/// sum together with its rounding error.
bool is_tiny(float a, float b, float c) {
  constexpr double kBound = 0x1p-126 - 0x1p-151;  // rounds to even, the smallest normal number
  const double product = static_cast<double>(a) * b;
  const double sum = product + c;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  const double magnitude = std::fabs(sum);
  return magnitude < kBound ||
         (magnitude == kBound && std::signbit(error) != std::signbit(sum) && error != 0.0);
}

/// fma with denormal results flushed to a zero of their sign. No operand is a denormal.
float flushing_fma(float a, float b, float c) {
  const float result = std::fma(a, b, c);
  const float magnitude = std::fabs(result);
  if (!(magnitude <= kSmallestNormal)) return result;
  const bool flushed = magnitude < kSmallestNormal || is_tiny(a, b, c);
  return flushed ? std::copysign(0.0F, result) : result;
}

/// Vectors of four in plain C++: the compiler's own vector code where it has any.
struct PortableMath {
  static constexpr int kLanes = 4;
  static constexpr int kRows = 4;
  static constexpr int kVectors = 2;
  static constexpr int kPerStep = 1;

  struct Vector {
    float lane[kLanes];
  };

  static Vector zero() { return {}; }

  static Vector load(const float* p) {
    Vector v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  }

  static Vector load_words(const std::uint32_t* p) {
    Vector v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  }

  static Vector broadcast_word(const std::uint32_t* p) {
    const float value = bits_float(*p);
    return {{value, value, value, value}};
  }

  static void store(float* p, const Vector& v) { __builtin_memcpy(p, &v, sizeof(v)); }
  static void store_words(std::uint32_t* p, const Vector& v) { __builtin_memcpy(p, &v, sizeof(v)); }

  template <class T, std::size_t kCount>
  static void copy_front(T* to, const T (&from)[kCount], std::int64_t n) {
    const auto count = static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < kCount && i < count; ++i) to[i] = from[i];
  }

  static void transpose(Vector* block) {
    for (int r = 0; r < kLanes; ++r) {
      for (int c = 0; c < r; ++c) {
        const float value = block[r].lane[c];
        block[r].lane[c] = block[c].lane[r];
        block[c].lane[r] = value;
      }
    }
  }
};

struct F32Math : PortableMath {
  static constexpr bool kNarrow = false;

  static Vector multiply_add(const Vector& a, const Vector& b, const Vector& sums) {
    Vector v;
    for (int i = 0; i < kLanes; ++i) v.lane[i] = std::fma(a.lane[i], b.lane[i], sums.lane[i]);
    return v;
  }

  static Vector scaled(const Vector& words, const Vector& scales) {
    Vector v;
    for (int i = 0; i < kLanes; ++i) v.lane[i] = words.lane[i] * scales.lane[i];
    return v;
  }

  template <class Format>
  static Vector along_k(const typename Format::Code* p, std::int64_t n) {
    Vector v;
    decode_lanes<Format, kLanes>(p, n, v.lane);
    return v;
  }

  template <class Format>
  static Vector across(const typename Format::Code* p, std::int64_t, std::int64_t, std::int64_t n) {
    return along_k<Format>(p, n);
  }
};

struct Bf16Math : PortableMath {
  static constexpr bool kNarrow = true;

  static Vector multiply_add(const Vector& a, const Vector& b, const Vector& sums) {
    Vector v;
    for (int i = 0; i < kLanes; ++i) v.lane[i] = flushing_fma(a.lane[i], b.lane[i], sums.lane[i]);
    return v;
  }

  static Vector flushed(Vector v) {
    for (float& value : v.lane) value = flush_input(value);
    return v;
  }

  static Vector scaled(const Vector& words, const Vector& scales) {
    return flushed(F32Math::scaled(words, scales));
  }

  template <class Format>
  static Vector along_k(const typename Format::Code* p, std::int64_t n) {
    return flushed(F32Math::along_k<Format>(p, n));
  }

  template <class Format>
  static Vector across(const typename Format::Code* p, std::int64_t, std::int64_t, std::int64_t n) {
    return along_k<Format>(p, n);
  }
};

}  // namespace

constexpr GemmKernels kGemmPortable{
    .f32 = make_gemm_kernel<F32Math>("portable f32 fma", 1.0),
    .bf16 = make_gemm_kernel<Bf16Math>("portable bf16 dot by flushed fma", 0.5),
    .multiply_f64 = multiply_rows_f64<F32Math>,
};

}  // namespace tape8::cpu
