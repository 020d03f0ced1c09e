#pragma once

#include "backend/cpu/kernels.hpp"

namespace tape8::cpu {

ActivationParts parts_of(const ActivationType& type);

}  // namespace tape8::cpu
