#pragma once

#include <vector>

#include "bench/figure.hpp"

namespace tape8::tools::bench {

/// What costs time whatever the size: a small op, a node of the tape, the program's start.
std::vector<Figure> small_figures();

}  // namespace tape8::tools::bench
