#pragma once

#include "backend/cpu/isa.hpp"

namespace tape8 {

/// The instruction set that the CPU backend runs on, and its choice for all threads.
cpu::Isa cpu_isa_in_use();
void use_cpu_isa(cpu::Isa isa);

}  // namespace tape8
