#include <immintrin.h>

#include "backend/cpu/gemm_kernels.hpp"
#include "backend/cpu/gemm_pack.hpp"
#include "backend/cpu/gemm_tile.hpp"

namespace tape8::cpu {
namespace {

/// The lowest n bits; n may be negative or exceed the width.
[[gnu::always_inline]] inline __mmask64 first(std::int64_t n) {
  if (n <= 0) return 0;
  return n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
}

struct Avx512Math {
  static constexpr int kLanes = 16;
  static constexpr int kRows = 14;
  static constexpr int kVectors = 2;
  using Vector = __m512;

  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector load(const float* p) { return _mm512_load_ps(p); }
  static Vector load_words(const std::uint32_t* p) { return _mm512_load_ps(p); }
  static Vector broadcast_word(const std::uint32_t* p) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*p)));
  }
  static Vector broadcast_halves(const std::uint32_t* p, const std::uint32_t* q) {
    const __m512i low = _mm512_set1_epi32(static_cast<int>(*p));
    return _mm512_castsi512_ps(_mm512_mask_set1_epi32(low, 0xFF00, static_cast<int>(*q)));
  }
  static void store(float* p, Vector v) { _mm512_store_ps(p, v); }
  static void store_words(std::uint32_t* p, Vector v) { _mm512_storeu_ps(p, v); }

  template <class T, std::size_t kCount>
  static void copy_front(T* to, const T (&from)[kCount], std::int64_t n) {
    constexpr auto kPerVector = static_cast<std::int64_t>(64 / sizeof(T));
    for (std::int64_t i = 0; i < n; i += kPerVector) {
      const __mmask64 bytes = first((n - i) * static_cast<std::int64_t>(sizeof(T)));
      _mm512_mask_storeu_epi8(to + i, bytes, _mm512_maskz_loadu_epi8(bytes, from + i));
    }
  }

  /// Words, pairs of words, then 128-bit blocks twice.
  static void transpose(Vector* block) {
    Vector pairs[kLanes], quads[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; i += 2) {
      pairs[i] = _mm512_unpacklo_ps(block[i], block[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps(block[i], block[i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; i += 4) {
      quads[i] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      quads[i + 1] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
      quads[i + 2] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      quads[i + 3] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 4; ++i) {
      const Vector even_low = _mm512_shuffle_f32x4(quads[i], quads[i + 4], 0x88);
      const Vector odd_low = _mm512_shuffle_f32x4(quads[i], quads[i + 4], 0xDD);
      const Vector even_high = _mm512_shuffle_f32x4(quads[i + 8], quads[i + 12], 0x88);
      const Vector odd_high = _mm512_shuffle_f32x4(quads[i + 8], quads[i + 12], 0xDD);
      block[i] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
      block[i + 4] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
      block[i + 8] = _mm512_shuffle_f32x4(even_low, even_high, 0xDD);
      block[i + 12] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xDD);
    }
  }
};

[[gnu::always_inline]] inline __m128i load_16(const std::uint8_t* p, std::int64_t n) {
  return _mm_maskz_loadu_epi8(static_cast<__mmask16>(first(n)), p);
}
[[gnu::always_inline]] inline __m256i load_32(const std::uint8_t* p, std::int64_t n) {
  return _mm256_maskz_loadu_epi8(static_cast<__mmask32>(first(n)), p);
}
[[gnu::always_inline]] inline __m256i load_16(const std::uint16_t* p, std::int64_t n) {
  return _mm256_maskz_loadu_epi16(static_cast<__mmask16>(first(n)), p);
}
[[gnu::always_inline]] inline __m512i load_32(const std::uint16_t* p, std::int64_t n) {
  return _mm512_maskz_loadu_epi16(static_cast<__mmask32>(first(n)), p);
}

/// The two bytes of the bf16 value of each magnitude of an FP8 format.
template <class Format>
struct Bf16Table {
  alignas(64) std::uint8_t low[128];
  alignas(64) std::uint8_t high[128];
};

template <class Format>
constexpr Bf16Table<Format> make_table() {
  Bf16Table<Format> table{};
  for (std::uint32_t code = 0; code < 128; ++code) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, Format::decode(code)) >> 16;
    table.low[code] = static_cast<std::uint8_t>(bits & 0xFFU);
    table.high[code] = static_cast<std::uint8_t>(bits >> 8);
  }
  return table;
}

template <class Format>
constexpr Bf16Table<Format> kBf16Table = make_table<Format>();

/// Decodes FP8 codes that `codes` repeats in every byte of their places: the low byte of the bf16
/// value goes to the bytes of `low`, the high one to those of `high`, zero to others.
template <class Format>
[[gnu::always_inline]] inline __m512i decode_bytes(__m512i codes, __mmask64 low, __mmask64 high) {
  const auto& table = kBf16Table<Format>;
  const __m512i lows = _mm512_maskz_permutex2var_epi8(low, _mm512_load_si512(table.low), codes,
                                                      _mm512_load_si512(table.low + 64));
  const __m512i highs = _mm512_maskz_permutex2var_epi8(high, _mm512_load_si512(table.high), codes,
                                                       _mm512_load_si512(table.high + 64));
  const __m512i signs = _mm512_maskz_set1_epi8(high, -128);
  // (codes & signs) | lows | highs
  return _mm512_ternarylogic_epi32(codes, signs, _mm512_or_si512(lows, highs), 0xEA);
}

template <int kRepeat>
struct RepeatIndices {
  alignas(64) std::uint8_t at[64];
  constexpr RepeatIndices() : at{} {
    for (int i = 0; i < 64; ++i) at[i] = static_cast<std::uint8_t>(i / kRepeat);
  }
};

template <int kRepeat>
constexpr RepeatIndices<kRepeat> kRepeatIndices;

/// Bytes i of two vectors, each twice.
struct PairIndices {
  alignas(64) std::uint8_t at[64];
  constexpr PairIndices() : at{} {
    for (int i = 0; i < 64; ++i) at[i] = static_cast<std::uint8_t>(i / 4 + (i % 4 < 2 ? 0 : 64));
  }
};

constexpr PairIndices kPairIndices;

/// Each of the lowest bytes kRepeat times.
template <int kRepeat>
[[gnu::always_inline]] inline __m512i repeat_bytes(__m512i bytes) {
  return _mm512_permutexvar_epi8(_mm512_load_si512(kRepeatIndices<kRepeat>.at), bytes);
}

/// The e2m1 values, twice in bf16, where an index has a bit more than a code.
struct E2m1Table {
  alignas(64) float f32[16];
  alignas(64) std::uint16_t bf16[32];
  constexpr E2m1Table() : f32{}, bf16{} {
    for (std::uint32_t i = 0; i < 32; ++i) {
      const float value = E2m1Format::decode(i & 0xFU);
      f32[i & 0xFU] = value;
      bf16[i] = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, value) >> 16);
    }
  }
};

constexpr E2m1Table kE2m1Table;

struct F32Math : Avx512Math {
  static constexpr int kPerStep = 1;
  static constexpr bool kNarrow = false;

  static Vector multiply_add(Vector a, Vector b, Vector sums) {
    return _mm512_fmadd_ps(a, b, sums);
  }

  static Vector scaled(Vector words, Vector scales) { return _mm512_mul_ps(words, scales); }

  template <class Format>
  static Vector along_k(const typename Format::Code* p, std::int64_t n) {
    if constexpr (__is_same(Format, E2m1Format)) {
      // Indices are the lowest four bits of each half of 64.
      const __m512i bytes = _mm512_cvtepu8_epi64(load_16(p, (n + 1) / 2));
      const __m512i codes = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
      return _mm512_maskz_permutexvar_ps(static_cast<__mmask16>(first(n)), codes,
                                         _mm512_load_ps(kE2m1Table.f32));
    } else if constexpr (sizeof(*p) == 1) {
      const __m512i codes = repeat_bytes<4>(_mm512_castsi128_si512(load_16(p, n)));
      return _mm512_castsi512_ps(
          decode_bytes<Format>(codes, 0x4444444444444444U, 0x8888888888888888U));
    } else if constexpr (__is_same(Format, Bf16Format)) {
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_16(p, n)), 16));
    } else if constexpr (__is_same(Format, F16Format)) {
      return _mm512_cvtph_ps(load_16(p, n));
    } else {
      return _mm512_maskz_loadu_ps(static_cast<__mmask16>(first(n)), p);
    }
  }

  template <class Format>
  static Vector across(const typename Format::Code* p, std::int64_t, std::int64_t, std::int64_t n) {
    return along_k<Format>(p, n);
  }
};

struct Bf16Math : Avx512Math {
  static constexpr int kPerStep = 2;
  static constexpr bool kNarrow = true;

  static Vector multiply_add(Vector a, Vector b, Vector sums) {
    return _mm512_dpbf16_ps(sums, (__m512bh)_mm512_castps_si512(b),
                            (__m512bh)_mm512_castps_si512(a));
  }

  /// Exact, but for values that are bf16 denormals: any such counts as zero in the dot.
  static Vector scaled(Vector words, Vector scales) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    const __m512i pairs = _mm512_castps_si512(words);
    const Vector even = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)), scales);
    const Vector odd = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(pairs, upper)), scales);
    // even >> 16 | (odd & upper)
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        _mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd), upper, 0xF8));
  }

  template <class Format>
  static __m512i decode_pairs(__m512i codes) {
    return decode_bytes<Format>(codes, 0x5555555555555555U, 0xAAAAAAAAAAAAAAAAU);
  }

  template <class Format>
  static Vector along_k(const typename Format::Code* p, std::int64_t n) {
    if constexpr (__is_same(Format, E2m1Format)) {
      // Indices are the lowest five bits of each half of 32.
      const __m512i bytes = _mm512_cvtepu8_epi32(load_16(p, (n + 1) / 2));
      const __m512i codes = _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
      return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(
          static_cast<__mmask32>(first(n)), codes, _mm512_load_si512(kE2m1Table.bf16)));
    } else if constexpr (sizeof(*p) == 1) {
      const __m512i bytes = _mm512_castsi256_si512(load_32(p, n));
      return _mm512_castsi512_ps(decode_pairs<Format>(repeat_bytes<2>(bytes)));
    } else {
      return _mm512_castsi512_ps(load_32(p, n));
    }
  }

  template <class Format>
  static Vector across(const typename Format::Code* p, std::int64_t next, std::int64_t depth,
                       std::int64_t n) {
    const std::int64_t next_n = depth > 1 ? n : 0;
    if constexpr (sizeof(*p) == 1) {
      const __m512i even = _mm512_castsi128_si512(load_16(p, n));
      const __m512i odd = _mm512_castsi128_si512(load_16(p + (depth > 1 ? next : 0), next_n));
      const __m512i codes = _mm512_permutex2var_epi8(even, _mm512_load_si512(kPairIndices.at), odd);
      return _mm512_castsi512_ps(decode_pairs<Format>(codes));
    } else {
      const __m512i even = _mm512_cvtepu16_epi32(load_16(p, n));
      const __m512i odd = _mm512_cvtepu16_epi32(load_16(p + (depth > 1 ? next : 0), next_n));
      return _mm512_castsi512_ps(_mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
    }
  }
};

}  // namespace

constexpr GemmKernels kGemmAvx512{
    .f32 = make_gemm_kernel<F32Math>("avx512 f32 fma", 100.0),
    .bf16 = make_gemm_kernel<Bf16Math>("avx512 bf16 dot", 200.0),
    .multiply_f64 = multiply_rows_f64<F32Math>,
};

}  // namespace tape8::cpu
