#pragma once

#include <string_view>

#include "backend/backend.hpp"

namespace tape8 {

/// Throws UnsupportedError for operands that no backend takes: "backend: gemm: ...".
void check_gemm(std::string_view backend, const GemmArgs& args);

}  // namespace tape8
