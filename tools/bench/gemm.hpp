#pragma once

#include <vector>

#include "bench/figure.hpp"

namespace tape8::tools::bench {

/// gemm/<format>/<M>x<N>x<K>/<layout>/<threads>t: a matmul alone, operands cast beforehand.
std::vector<Figure> gemm_figures(const std::vector<int>& threads);

}  // namespace tape8::tools::bench
