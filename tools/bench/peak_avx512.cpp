#include <immintrin.h>

#include "bench/peak_loop.hpp"

namespace tape8::tools::bench {
namespace {

struct Avx512Math {
  using Vector = __m512;
  static constexpr int kProducts = 16;
  static Vector set(float value) { return _mm512_set1_ps(value); }
  static Vector multiply_add(Vector a, Vector b, Vector sum) { return _mm512_fmadd_ps(a, b, sum); }
};

/// Pairs of bf16 products. Values do not matter here, as long as none is a denormal.
struct Bf16DotMath : Avx512Math {
  static constexpr int kProducts = 32;
  static Vector multiply_add(Vector a, Vector b, Vector sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a),
                            (__m512bh)_mm512_castps_si512(b));
  }
};

}  // namespace

const PeakLoops kPeakAvx512{.f32 = make_peak_loop<Avx512Math>(),
                            .bf16_dot = make_peak_loop<Bf16DotMath>()};

}  // namespace tape8::tools::bench
