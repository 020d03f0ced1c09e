#pragma once

#include <cstdint>

// g++ 12 takes the deliberately undefined values of its own intrinsics for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

namespace tape8::cpu::avx512 {

struct Mask {
  __mmask16 v;
};

/// 16 lanes of int32. Shifts are logical.
struct Int {
  using Mask = avx512::Mask;
  __m512i v;

  Int() = default;
  Int(__m512i value) : v(value) {}
  explicit Int(std::int32_t value) : v(_mm512_set1_epi32(value)) {}

  static Int load_u8(const std::uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Int load_u16(const std::uint16_t* p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  /// Half bytes, the first of a byte low.
  static Int load_u4(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m512i pairs = _mm512_cvtepu8_epi64(bytes);
    return Int(_mm512_or_si512(pairs, _mm512_slli_epi64(pairs, 28))) & Int(0xF);
  }
  /// Stores the low 8 or 16 bits of each lane.
  void store_u8(std::uint8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
  }
  void store_u16(std::uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v));
  }
  /// The same of vectors in a row, with one permutation for two of them.
  static void store_u8(const Int (&parts)[2], std::uint8_t* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(bytes(parts, 0)));
  }
  static void store_u8(const Int (&parts)[4], std::uint8_t* p) {
    _mm512_storeu_si512(p, bytes(parts, 0));
  }
  static void store_signed_u8(const Int (&parts)[2], const Int (&signs)[2], std::uint8_t* p) {
    const __m512i joined = join_signs(bytes(parts, 0), bytes(signs, 3));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(joined));
  }
  static void store_signed_u8(const Int (&parts)[4], const Int (&signs)[4], std::uint8_t* p) {
    _mm512_storeu_si512(p, join_signs(bytes(parts, 0), bytes(signs, 3)));
  }
  static void store_u16(const Int (&parts)[4], std::uint16_t* p) {
    for (int i = 0; i < 2; ++i) {
      _mm512_storeu_si512(
          p + 32 * i, _mm512_permutex2var_epi16(parts[2 * i].v, even_words(), parts[2 * i + 1].v));
    }
  }
  /// Stores the low 7 bits of each lane, below the highest of `signs`.
  void store_signed_u8(const Int& signs, std::uint8_t* p) const {
    select_bits(Int(0x7F), *this, signs >> 24).store_u8(p);
  }
  /// Stores lanes below 16 as half bytes, the first of a byte low.
  void store_u4(std::uint8_t* p) const {
    const __m512i pairs = _mm512_or_si512(v, _mm512_srli_epi64(v, 28));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm512_cvtepi64_epi8(pairs));
  }
  /// Stores a's and b's lanes by turns.
  static void store_by_turns(Int a, Int b, std::int32_t* p) {
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    _mm512_storeu_si512(p, _mm512_permutex2var_epi32(a.v, low, b.v));
    _mm512_storeu_si512(p + 16, _mm512_permutex2var_epi32(a.v, high, b.v));
  }

  friend Int operator+(Int a, Int b) { return _mm512_add_epi32(a.v, b.v); }
  friend Int operator-(Int a, Int b) { return _mm512_sub_epi32(a.v, b.v); }
  friend Int operator&(Int a, Int b) { return _mm512_and_si512(a.v, b.v); }
  friend Int operator|(Int a, Int b) { return _mm512_or_si512(a.v, b.v); }
  friend Int operator<<(Int a, unsigned n) { return _mm512_slli_epi32(a.v, n); }
  friend Int operator>>(Int a, unsigned n) { return _mm512_srli_epi32(a.v, n); }
  friend Int max(Int a, Int b) { return _mm512_max_epi32(a.v, b.v); }
  friend Int min(Int a, Int b) { return _mm512_min_epi32(a.v, b.v); }
  friend Mask operator>(Int a, Int b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
  friend Int select(Mask m, Int a, Int b) { return _mm512_mask_blend_epi32(m.v, b.v, a.v); }
  /// Bits of a where mask has ones, of b elsewhere.
  friend Int select_bits(Int mask, Int a, Int b) {
    return _mm512_ternarylogic_epi32(mask.v, a.v, b.v, 0xCA);
  }
  friend std::int32_t reduce_max(Int a) { return _mm512_reduce_max_epi32(a.v); }
  /// Lane i is the largest lane of rows[i]: vectors are folded two by two until one is left.
  friend Int reduce_max_each(const Int (&rows)[16]) {
    __m512i halves[8];  // of rows i and i + 4 for even halves, i + 8 and i + 12 for odd ones
    for (int i = 0; i < 8; ++i) {
      const __m512i a = rows[i / 2 + i % 2 * 8].v, b = rows[i / 2 + i % 2 * 8 + 4].v;
      halves[i] = _mm512_max_epi32(_mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(1, 0, 1, 0)),
                                   _mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(3, 2, 3, 2)));
    }
    __m512i quarters[4];  // of rows i, i + 4, i + 8, i + 12
    for (int i = 0; i < 4; ++i) {
      const __m512i a = halves[2 * i], b = halves[2 * i + 1];
      quarters[i] = _mm512_max_epi32(_mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(2, 0, 2, 0)),
                                     _mm512_shuffle_i32x4(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
    }
    const __m512i even = _mm512_max_epi32(_mm512_unpacklo_epi32(quarters[0], quarters[1]),
                                          _mm512_unpackhi_epi32(quarters[0], quarters[1]));
    const __m512i odd = _mm512_max_epi32(_mm512_unpacklo_epi32(quarters[2], quarters[3]),
                                         _mm512_unpackhi_epi32(quarters[2], quarters[3]));
    return _mm512_max_epi32(_mm512_unpacklo_epi64(even, odd), _mm512_unpackhi_epi64(even, odd));
  }

 private:
  /// Byte `place` of each lane of the two vectors, in the lower half.
  static __m512i bytes(const Int (&parts)[2], char place) {
    const __m512i lanes = _mm512_set_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                          0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 124, 120, 116, 112,
                                          108, 104, 100, 96, 92, 88, 84, 80, 76, 72, 68, 64, 60, 56,
                                          52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0);
    return _mm512_permutex2var_epi8(parts[0].v, _mm512_add_epi8(lanes, _mm512_set1_epi8(place)),
                                    parts[1].v);
  }
  static __m512i bytes(const Int (&parts)[4], char place) {
    const __m512i low = bytes({parts[0], parts[1]}, place);
    const __m512i high = bytes({parts[2], parts[3]}, place);
    return _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
  }
  static __m512i join_signs(__m512i low, __m512i signs) {
    return _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x7F), low, signs, 0xCA);
  }
  static __m512i even_words() {
    return _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28,
                            26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  }
};

/// 8 lanes of uint64.
struct Long {
  static constexpr int kLanes = 8;
  /// Which value of eight to put in each lane for store_pairs to store them in order.
  static constexpr std::uint64_t kPairOrder[kLanes] = {0, 4, 1, 5, 2, 6, 3, 7};
  __m512i v;

  Long() = default;
  Long(__m512i value) : v(value) {}
  explicit Long(std::uint64_t value) : v(_mm512_set1_epi64(static_cast<long long>(value))) {}

  static Long load(const std::uint64_t* p) { return _mm512_loadu_si512(p); }

  friend Long operator+(Long a, Long b) { return _mm512_add_epi64(a.v, b.v); }
  friend Long operator^(Long a, Long b) { return _mm512_xor_si512(a.v, b.v); }
  friend Long operator>>(Long a, unsigned n) { return _mm512_srli_epi64(a.v, n); }
  /// The product of the low halves.
  friend Long multiply_low(Long a, Long b) { return _mm512_mul_epu32(a.v, b.v); }
  /// The low half of a, and that of b above it.
  friend Long join_low(Long a, Long b) {
    return _mm512_mask_blend_epi32(0xAAAA, a.v, _mm512_slli_epi64(b.v, 32));
  }
  /// Stores lanes of a and b by turns: even lanes, then odd ones.
  friend void store_pairs(Long a, Long b, std::uint16_t* p) {
    _mm512_storeu_si512(p, _mm512_unpacklo_epi64(a.v, b.v));
    _mm512_storeu_si512(p + 32, _mm512_unpackhi_epi64(a.v, b.v));
  }
};

/// 16 lanes of f32. max and min give b where a lane of a or b is NaN.
struct Float {
  using Int = avx512::Int;
  using Mask = avx512::Mask;
  using Long = avx512::Long;
  static constexpr int kLanes = 16;
  /// Vectors that arithmetic-bound loops work on at a time.
  static constexpr int kUnroll = 4;
  __m512 v;

  Float() = default;
  Float(__m512 value) : v(value) {}
  explicit Float(float value) : v(_mm512_set1_ps(value)) {}

  static Float load(const float* p) { return _mm512_loadu_ps(p); }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  static Float from_bits(Int a) { return _mm512_castsi512_ps(a.v); }

  friend Float operator+(Float a, Float b) { return _mm512_add_ps(a.v, b.v); }
  friend Float operator-(Float a, Float b) { return _mm512_sub_ps(a.v, b.v); }
  friend Float operator*(Float a, Float b) { return _mm512_mul_ps(a.v, b.v); }
  friend Float operator/(Float a, Float b) { return _mm512_div_ps(a.v, b.v); }
  friend Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
  friend Float sqrt(Float a) { return _mm512_sqrt_ps(a.v); }
  friend Float max(Float a, Float b) { return _mm512_max_ps(a.v, b.v); }
  friend Float min(Float a, Float b) { return _mm512_min_ps(a.v, b.v); }
  friend Mask operator<=(Float a, Float b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
  friend Mask is_nan(Float a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
  friend Float select(Mask m, Float a, Float b) { return _mm512_mask_blend_ps(m.v, b.v, a.v); }
  friend Int bits(Float a) { return _mm512_castps_si512(a.v); }
  /// a * 2^n, rounded once, for a near 1 and a whole n in [-250, 250].
  friend Float scale_exponent(Float a, Float n) { return _mm512_scalef_ps(a.v, n.v); }

  /// Halves are added until one lane is left: lane i and i + 8, i + 4, i + 2, i + 1.
  friend float reduce_add(Float a) {
    const __m256 high = _mm512_extractf32x8_ps(a.v, 1);
    const __m256 w8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), high);
    const __m128 w4 = _mm_add_ps(_mm256_castps256_ps128(w8), _mm256_extractf128_ps(w8, 1));
    const __m128 w2 = _mm_add_ps(w4, _mm_movehl_ps(w4, w4));
    return _mm_cvtss_f32(_mm_add_ss(w2, _mm_movehdup_ps(w2)));
  }
  /// Lane i is reduce_add(rows[i]): vectors are folded two by two until one is left.
  friend Float reduce_add_each(const Float (&rows)[16]) {
    __m512 halves[8];  // of rows i and i + 4 for even halves, i + 8 and i + 12 for odd ones
    for (int i = 0; i < 8; ++i) {
      const __m512 a = rows[i / 2 + i % 2 * 8].v, b = rows[i / 2 + i % 2 * 8 + 4].v;
      halves[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(1, 0, 1, 0)),
                                _mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(3, 2, 3, 2)));
    }
    __m512 quarters[4];  // of rows i, i + 4, i + 8, i + 12
    for (int i = 0; i < 4; ++i) {
      const __m512 a = halves[2 * i], b = halves[2 * i + 1];
      quarters[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(2, 0, 2, 0)),
                                  _mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
    }
    // Lanes i and i + 2 of a quarter, then those next to each other.
    const auto fold = [](__m512 a, __m512 b) {
      return _mm512_add_ps(_mm512_shuffle_ps(a, b, _MM_SHUFFLE(1, 0, 1, 0)),
                           _mm512_shuffle_ps(a, b, _MM_SHUFFLE(3, 2, 3, 2)));
    };
    const __m512 low = fold(quarters[0], quarters[1]), high = fold(quarters[2], quarters[3]);
    return _mm512_add_ps(_mm512_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0)),
                         _mm512_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
  }
  friend float reduce_max(Float a) { return _mm512_reduce_max_ps(a.v); }
};

}  // namespace tape8::cpu::avx512
