#pragma once

#include <vector>

#include "bench/figure.hpp"
#include "bench/place.hpp"

namespace tape8::tools::bench {

/// gemm/<format>/<M>x<N>x<K>/<layout>/<place>: a matmul alone, operands cast beforehand.
std::vector<Figure> gemm_figures(const std::vector<Place>& places);

}  // namespace tape8::tools::bench
