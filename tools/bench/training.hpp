#pragma once

#include <vector>

#include "bench/figure.hpp"

namespace tape8::tools::bench {

/// training_step/<recipe>/<batch>x<features>x<intermediate>/<threads>t: batch to updated weights of
/// a LayerNormMLP and a head; and of the same model's steps 2 to 100, with the last of `threads`,
/// fresh_pages/... and system_allocations/...
std::vector<Figure> training_figures(const std::vector<int>& threads);

}  // namespace tape8::tools::bench
