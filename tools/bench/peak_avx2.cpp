#include <immintrin.h>

#include "bench/peak_loop.hpp"

namespace tape8::tools::bench {
namespace {

struct Avx2Math {
  using Vector = __m256;
  static constexpr int kProducts = 8;
  static Vector set(float value) { return _mm256_set1_ps(value); }
  static Vector multiply_add(Vector a, Vector b, Vector sum) { return _mm256_fmadd_ps(a, b, sum); }
};

}  // namespace

const PeakLoops kPeakAvx2{.f32 = make_peak_loop<Avx2Math>()};

}  // namespace tape8::tools::bench
