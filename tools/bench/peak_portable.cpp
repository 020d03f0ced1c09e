#include "bench/peak_loop.hpp"

namespace tape8::tools::bench {
namespace {

/// 128 bits: what every processor that compilers target has. Where there is no fused multiply-add a
/// product and a sum are two operations.
struct PortableMath {
  using Vector [[gnu::vector_size(16)]] = float;
  static constexpr int kProducts = 4;
  static Vector set(float value) { return Vector{value, value, value, value}; }
  static Vector multiply_add(Vector a, Vector b, Vector sum) { return sum + a * b; }
};

}  // namespace

const PeakLoops kPeakPortable{.f32 = make_peak_loop<PortableMath>()};

}  // namespace tape8::tools::bench
