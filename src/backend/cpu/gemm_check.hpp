#pragma once

#include "backend/backend.hpp"

namespace tape8::cpu {

/// Throws UnsupportedError for operands that the kernels do not take.
void check_gemm(const GemmArgs& args);

}  // namespace tape8::cpu
