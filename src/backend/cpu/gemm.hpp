#pragma once

#include "backend/backend.hpp"
#include "backend/cpu/isa.hpp"

namespace tape8::cpu {

/// GemmArgs on the kernels of one instruction set.
void gemm(Isa isa, const GemmArgs& args);

}  // namespace tape8::cpu
