#pragma once

#include <vector>

#include "bench/figure.hpp"
#include "bench/place.hpp"

namespace tape8::tools::bench {

/// <op>/bf16/<rows>x<cols>/<place> with one scale for the tensor, else
/// <op>/bf16/<scaling>/<rowwise|both>/<rows>x<cols>/<place>: kernels that compute and cast in
/// one pass, from a bf16 matrix of rows x cols, for gated activations of rows x 2 cols.
std::vector<Figure> fused_figures(const std::vector<Place>& places);

}  // namespace tape8::tools::bench
