#pragma once

#include <vector>

#include "bench/figure.hpp"
#include "bench/place.hpp"

namespace tape8::tools::bench {

/// layernorm_mlp/<activation>/<recipe>/<rows>x<hidden>x<intermediate>/<place>: forward and
/// backward of the block, with the gradients of x and of all parameters, after its weights changed.
std::vector<Figure> block_figures(const std::vector<Place>& places);

}  // namespace tape8::tools::bench
