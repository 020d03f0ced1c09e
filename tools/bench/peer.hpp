#pragma once

#include <cstdint>
#include <string>

#include <tape8/core/dtype.hpp>

#include "bench/measure.hpp"

namespace tape8::tools::bench {

/// How the matrices of d [m, n] = a [m, k] * b [k, n] lie in memory: a's letter, then b's; T is
/// transposed.
enum class Layout { nn, nt, tn };

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  Layout layout = Layout::nn;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

/// The library whose matmul is measured beside tape8's, with its version; empty where this build
/// has none.
std::string peer_name();
/// Its matmul of that type, f32 or bf16, as one call; empty where there is none.
Call peer_gemm(const GemmShape& shape, DType dtype, int threads);

}  // namespace tape8::tools::bench
