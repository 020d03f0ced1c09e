#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/cpu/isa.hpp"

namespace tape8::cpu {

/// A CPU backend that runs the kernels of one instruction set, which the machine must have.
std::unique_ptr<Backend> make_backend(Isa isa);

}  // namespace tape8::cpu
