#pragma once

#include <vector>

#include "bench/figure.hpp"

namespace tape8::tools::bench {

/// saved_for_backward/<activation>/<dtype>/<recipe>[/remake_casts]/<rows>x<hidden>x<intermediate>:
/// what an MLP block keeps, beside what it keeps of the same dtype without quantization.
std::vector<Figure> memory_figures();

}  // namespace tape8::tools::bench
