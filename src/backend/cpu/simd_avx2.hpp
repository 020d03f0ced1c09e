#pragma once

#include <cstdint>

#include <immintrin.h>

namespace tape8::cpu::avx2 {

/// All ones in the lanes that are chosen; lanes 0 to 7 in lo.
struct Mask {
  __m256i lo, hi;
};

/// 16 lanes of int32. Shifts are logical.
struct Int {
  using Mask = avx2::Mask;
  __m256i lo, hi;

  Int() = default;
  Int(__m256i low, __m256i high) : lo(low), hi(high) {}
  explicit Int(std::int32_t value) : lo(_mm256_set1_epi32(value)), hi(lo) {}

  static Int load_u8(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
  }
  static Int load_u16(const std::uint16_t* p) {
    return {_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  /// Half bytes, the first of a byte low.
  static Int load_u4(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m256i low = _mm256_cvtepu8_epi64(bytes);
    const __m256i high = _mm256_cvtepu8_epi64(_mm_srli_epi64(bytes, 32));
    return Int(_mm256_or_si256(low, _mm256_slli_epi64(low, 28)),
               _mm256_or_si256(high, _mm256_slli_epi64(high, 28))) &
           Int(0xF);
  }
  /// Stores the low 8 or 16 bits of each lane.
  void store_u8(std::uint8_t* p) const {
    const __m256i words = (*this & Int(0xFF)).to_words();
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  void store_u16(std::uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (*this & Int(0xFFFF)).to_words());
  }
  /// Stores the low 7 bits of each lane, below the highest of `signs`.
  void store_signed_u8(const Int& signs, std::uint8_t* p) const {
    select_bits(Int(0x7F), *this, signs >> 24).store_u8(p);
  }
  /// Stores lanes below 16 as half bytes, the first of a byte low.
  void store_u4(std::uint8_t* p) const {
    const __m256i low = _mm256_or_si256(lo, _mm256_srli_epi64(lo, 28));
    const __m256i high = _mm256_or_si256(hi, _mm256_srli_epi64(hi, 28));
    // Bytes 0 and 8 of each half of low and high go to their places among eight.
    const __m256i bytes = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi64x(0xFF)),
                                          _mm256_slli_epi64(high, 8));
    const __m256i places =
        _mm256_setr_epi8(0, 8, -1, -1, 1, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                         -1, -1, 0, 8, -1, -1, 1, 9, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i placed = _mm256_shuffle_epi8(bytes, places);
    _mm_storel_epi64(
        reinterpret_cast<__m128i*>(p),
        _mm_or_si128(_mm256_castsi256_si128(placed), _mm256_extracti128_si256(placed, 1)));
  }
  /// Stores a's and b's lanes by turns.
  static void store_by_turns(Int a, Int b, std::int32_t* p) {
    store_half_by_turns(a.lo, b.lo, p);
    store_half_by_turns(a.hi, b.hi, p + 16);
  }

  friend Int operator+(Int a, Int b) {
    return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
  }
  friend Int operator-(Int a, Int b) {
    return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
  }
  friend Int operator&(Int a, Int b) {
    return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
  }
  friend Int operator|(Int a, Int b) {
    return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
  }
  friend Int operator<<(Int a, unsigned n) {
    const int count = static_cast<int>(n);
    return {_mm256_slli_epi32(a.lo, count), _mm256_slli_epi32(a.hi, count)};
  }
  friend Int operator>>(Int a, unsigned n) {
    const int count = static_cast<int>(n);
    return {_mm256_srli_epi32(a.lo, count), _mm256_srli_epi32(a.hi, count)};
  }
  friend Int max(Int a, Int b) {
    return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
  }
  friend Int min(Int a, Int b) {
    return {_mm256_min_epi32(a.lo, b.lo), _mm256_min_epi32(a.hi, b.hi)};
  }
  friend Mask operator>(Int a, Int b) {
    return {_mm256_cmpgt_epi32(a.lo, b.lo), _mm256_cmpgt_epi32(a.hi, b.hi)};
  }
  friend Int select(Mask m, Int a, Int b) {
    return {_mm256_blendv_epi8(b.lo, a.lo, m.lo), _mm256_blendv_epi8(b.hi, a.hi, m.hi)};
  }
  /// Bits of a where mask has ones, of b elsewhere.
  friend Int select_bits(Int mask, Int a, Int b) {
    return (mask & a) | Int(_mm256_andnot_si256(mask.lo, b.lo), _mm256_andnot_si256(mask.hi, b.hi));
  }
  friend std::int32_t reduce_max(Int a) {
    const __m256i w8 = _mm256_max_epi32(a.lo, a.hi);
    const __m128i w4 = _mm_max_epi32(_mm256_castsi256_si128(w8), _mm256_extracti128_si256(w8, 1));
    const __m128i w2 = _mm_max_epi32(w4, _mm_shuffle_epi32(w4, _MM_SHUFFLE(1, 0, 3, 2)));
    const __m128i w1 = _mm_max_epi32(w2, _mm_shuffle_epi32(w2, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(w1);
  }
  /// Lane i is the largest lane of rows[i].
  friend Int reduce_max_each(const Int (&rows)[16]) {
    return {reduce_max_eight(rows), reduce_max_eight(rows + 8)};
  }

 private:
  static void store_half_by_turns(__m256i a, __m256i b, std::int32_t* p) {
    const __m256i even = _mm256_unpacklo_epi32(a, b), odd = _mm256_unpackhi_epi32(a, b);
    auto* const to = reinterpret_cast<__m256i*>(p);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
  /// Vectors are folded two by two until one is left.
  static __m256i reduce_max_eight(const Int* rows) {
    __m256i quarters[4];  // of rows i and i + 4
    for (int i = 0; i < 4; ++i) {
      const __m256i a = _mm256_max_epi32(rows[i].lo, rows[i].hi);
      const __m256i b = _mm256_max_epi32(rows[i + 4].lo, rows[i + 4].hi);
      quarters[i] = _mm256_max_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                     _mm256_permute2x128_si256(a, b, 0x31));
    }
    const __m256i even = _mm256_max_epi32(_mm256_unpacklo_epi32(quarters[0], quarters[1]),
                                          _mm256_unpackhi_epi32(quarters[0], quarters[1]));
    const __m256i odd = _mm256_max_epi32(_mm256_unpacklo_epi32(quarters[2], quarters[3]),
                                         _mm256_unpackhi_epi32(quarters[2], quarters[3]));
    return _mm256_max_epi32(_mm256_unpacklo_epi64(even, odd), _mm256_unpackhi_epi64(even, odd));
  }
  /// The lanes, each of 16 bits, in their order.
  __m256i to_words() const {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), _MM_SHUFFLE(3, 1, 2, 0));
  }
};

/// 8 lanes of uint64.
struct Long {
  static constexpr int kLanes = 8;
  /// Which value of eight to put in each lane for store_pairs to store them in order.
  static constexpr std::uint64_t kPairOrder[kLanes] = {0, 2, 1, 3, 4, 6, 5, 7};
  __m256i lo, hi;

  Long() = default;
  Long(__m256i low, __m256i high) : lo(low), hi(high) {}
  explicit Long(std::uint64_t value)
      : lo(_mm256_set1_epi64x(static_cast<long long>(value))), hi(lo) {}

  static Long load(const std::uint64_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 4))};
  }

  friend Long operator+(Long a, Long b) {
    return {_mm256_add_epi64(a.lo, b.lo), _mm256_add_epi64(a.hi, b.hi)};
  }
  friend Long operator^(Long a, Long b) {
    return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
  }
  friend Long operator>>(Long a, unsigned n) {
    const int count = static_cast<int>(n);
    return {_mm256_srli_epi64(a.lo, count), _mm256_srli_epi64(a.hi, count)};
  }
  /// The product of the low halves.
  friend Long multiply_low(Long a, Long b) {
    return {_mm256_mul_epu32(a.lo, b.lo), _mm256_mul_epu32(a.hi, b.hi)};
  }
  /// The low half of a, and that of b above it.
  friend Long join_low(Long a, Long b) {
    return {_mm256_blend_epi32(a.lo, _mm256_slli_epi64(b.lo, 32), 0xAA),
            _mm256_blend_epi32(a.hi, _mm256_slli_epi64(b.hi, 32), 0xAA)};
  }
  /// Stores lanes of a and b by turns, those of each half: even lanes, then odd ones.
  friend void store_pairs(Long a, Long b, std::uint16_t* p) {
    auto* const to = reinterpret_cast<__m256i*>(p);
    _mm256_storeu_si256(to, _mm256_unpacklo_epi64(a.lo, b.lo));
    _mm256_storeu_si256(to + 1, _mm256_unpackhi_epi64(a.lo, b.lo));
    _mm256_storeu_si256(to + 2, _mm256_unpacklo_epi64(a.hi, b.hi));
    _mm256_storeu_si256(to + 3, _mm256_unpackhi_epi64(a.hi, b.hi));
  }
};

/// 16 lanes of f32. max and min give b where a lane of a or b is NaN.
struct Float {
  using Int = avx2::Int;
  using Mask = avx2::Mask;
  using Long = avx2::Long;
  static constexpr int kLanes = 16;
  /// Vectors that arithmetic-bound loops work on at a time.
  static constexpr int kUnroll = 2;
  __m256 lo, hi;

  Float() = default;
  Float(__m256 low, __m256 high) : lo(low), hi(high) {}
  explicit Float(float value) : lo(_mm256_set1_ps(value)), hi(lo) {}

  static Float load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  static Float from_bits(Int a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }

  friend Float operator+(Float a, Float b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
  }
  friend Float operator-(Float a, Float b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
  }
  friend Float operator*(Float a, Float b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
  }
  friend Float operator/(Float a, Float b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
  }
  friend Float fma(Float a, Float b, Float c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  friend Float sqrt(Float a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
  friend Float max(Float a, Float b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
  }
  friend Float min(Float a, Float b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
  }
  friend Mask operator<=(Float a, Float b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ)),
            _mm256_castps_si256(_mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ))};
  }
  friend Mask is_nan(Float a) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q)),
            _mm256_castps_si256(_mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q))};
  }
  friend Float select(Mask m, Float a, Float b) {
    return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(m.lo)),
            _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(m.hi))};
  }
  friend Int bits(Float a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
  /// a * 2^n, rounded once, for a near 1 and a whole n in [-250, 250].
  friend Float scale_exponent(Float a, Float n) {
    return {scale_half(a.lo, n.lo), scale_half(a.hi, n.hi)};
  }

  /// Halves are added until one lane is left: lane i and i + 8, i + 4, i + 2, i + 1.
  friend float reduce_add(Float a) {
    const __m256 w8 = _mm256_add_ps(a.lo, a.hi);
    const __m128 w4 = _mm_add_ps(_mm256_castps256_ps128(w8), _mm256_extractf128_ps(w8, 1));
    const __m128 w2 = _mm_add_ps(w4, _mm_movehl_ps(w4, w4));
    return _mm_cvtss_f32(_mm_add_ss(w2, _mm_movehdup_ps(w2)));
  }
  /// Lane i is reduce_add(rows[i]).
  friend Float reduce_add_each(const Float (&rows)[kLanes]) {
    float sums[kLanes];
    for (int i = 0; i < kLanes; ++i) sums[i] = reduce_add(rows[i]);
    return load(sums);
  }
  friend float reduce_max(Float a) {
    const __m256 w8 = _mm256_max_ps(a.lo, a.hi);
    const __m128 w4 = _mm_max_ps(_mm256_castps256_ps128(w8), _mm256_extractf128_ps(w8, 1));
    const __m128 w2 = _mm_max_ps(w4, _mm_movehl_ps(w4, w4));
    return _mm_cvtss_f32(_mm_max_ss(w2, _mm_movehdup_ps(w2)));
  }

 private:
  /// Two factors, each a normal number: the first product is exact, the second rounds.
  static __m256 scale_half(__m256 a, __m256 n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i first = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(a, power_of_two(first)),
                         power_of_two(_mm256_sub_epi32(whole, first)));
  }
  static __m256 power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
};

}  // namespace tape8::cpu::avx2
