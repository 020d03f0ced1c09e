#include <immintrin.h>

#include "backend/cpu/gemm_kernels.hpp"
#include "backend/cpu/gemm_pack.hpp"
#include "backend/cpu/gemm_tile.hpp"

namespace tape8::cpu {
namespace {

struct Avx2Math {
  static constexpr int kLanes = 8;
  static constexpr int kRows = 6;
  static constexpr int kVectors = 2;
  static constexpr int kPerStep = 1;
  using Vector = __m256;

  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector load(const float* p) { return _mm256_load_ps(p); }
  static Vector load_words(const std::uint32_t* p) {
    return _mm256_load_ps(reinterpret_cast<const float*>(p));
  }
  static Vector broadcast_word(const std::uint32_t* p) {
    return _mm256_broadcast_ss(reinterpret_cast<const float*>(p));
  }
  static void store(float* p, Vector v) { _mm256_store_ps(p, v); }
  static void store_words(std::uint32_t* p, Vector v) {
    _mm256_storeu_ps(reinterpret_cast<float*>(p), v);
  }
  static Vector multiply_add(Vector a, Vector b, Vector sums) {
    return _mm256_fmadd_ps(a, b, sums);
  }
  static Vector scaled(Vector words, Vector scales) { return _mm256_mul_ps(words, scales); }

  template <class T, std::size_t kCount>
  static void copy_front(T* to, const T (&from)[kCount], std::int64_t n) {
    const auto count = static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < kCount && i < count; ++i) to[i] = from[i];
  }

  /// Pairs of rows, of pairs, of 128-bit halves.
  static void transpose(Vector* block) {
    Vector pairs[kLanes], quads[kLanes];
    for (int i = 0; i < kLanes; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(block[i], block[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(block[i], block[i + 1]);
    }
    for (int i = 0; i < kLanes; i += 4) {
      quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
      quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
    }
    for (int i = 0; i < 4; ++i) {
      block[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
      block[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
    }
  }

  template <class Format>
  static Vector along_k(const typename Format::Code* p, std::int64_t n) {
    alignas(32) float values[kLanes];
    decode_lanes<Format, kLanes>(p, n, values);
    return _mm256_load_ps(values);
  }

  template <class Format>
  static Vector across(const typename Format::Code* p, std::int64_t, std::int64_t, std::int64_t n) {
    return along_k<Format>(p, n);
  }
};

struct F32Math : Avx2Math {
  static constexpr bool kNarrow = false;
};

struct Bf16Math : Avx2Math {
  static constexpr bool kNarrow = true;
};

/// Denormal operands and results count as zeros for as long as it lives.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushDenormals() { _mm_setcsr(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  unsigned saved_;
};

/// Out of line, so that no arithmetic moves across the guard's changes of the mode.
[[gnu::noinline]] void multiply_in_mode(std::int64_t rows, std::int64_t b_width, std::int64_t steps,
                                        const std::uint32_t* a, const std::uint32_t* b,
                                        bool accumulate, float* sums) {
  multiply_rows<Bf16Math>(rows, b_width, steps, a, b, accumulate, sums);
}

void multiply_flushed(std::int64_t rows, std::int64_t b_width, std::int64_t steps,
                      const std::uint32_t* a, const std::uint32_t* b, bool accumulate,
                      float* sums) {
  const FlushDenormals guard;
  multiply_in_mode(rows, b_width, steps, a, b, accumulate, sums);
}

constexpr GemmKernel make_bf16_kernel() {
  GemmKernel kernel = make_gemm_kernel<Bf16Math>("avx2 bf16 dot by flushed fma", 60.0);
  kernel.multiply = multiply_flushed;
  return kernel;
}

}  // namespace

constexpr GemmKernels kGemmAvx2{
    .f32 = make_gemm_kernel<F32Math>("avx2 f32 fma", 60.0),
    .bf16 = make_bf16_kernel(),
    .multiply_f64 = multiply_rows_f64<F32Math>,
};

}  // namespace tape8::cpu
