#pragma once

#include <vector>

#include "bench/figure.hpp"

namespace tape8::tools::bench {

/// <op>/bf16/<rows>x<cols>/<threads>t with one scale for the tensor, else
/// <op>/bf16/<scaling>/<rowwise|both>/<rows>x<cols>/<threads>t: kernels that compute and cast in
/// one pass, from a bf16 matrix of rows x cols, for gated activations of rows x 2 cols.
std::vector<Figure> fused_figures(const std::vector<int>& threads);

}  // namespace tape8::tools::bench
