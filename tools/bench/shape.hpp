#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/figure.hpp"

namespace tape8::tools::bench {

/// A dense layer: m rows of the batch, n = hidden_out, k = hidden_in.
struct DenseShape {
  std::int64_t m = 0, n = 0, k = 0;
};

/// From "MxNxK"; throws UsageError for anything else.
DenseShape dense_shape_from(const std::string& text);

/// dense/<recipe>/<M>x<N>x<K>/<threads>t in each recipe: forward and backward, with the gradients
/// of x, kernel and bias, after the kernel changed. The recipes take turns, so that they can be
/// compared.
std::vector<Result> measure_dense(const DenseShape& shape, int threads, double seconds);

/// One line: whether the fastest quantized recipe beats bf16, and by how much. Takes what
/// measure_dense() gave.
std::string dense_verdict(const std::vector<Result>& results);

}  // namespace tape8::tools::bench
