#pragma once

#include "backend/backend.hpp"
#include "backend/cpu/kernels.hpp"

// Ops whose values are cast with block scales, or read with them. They go by tiles, a band of whole
// blocks of rows at a time: an op's f32 values stay in cache until each usage has been cast.
namespace tape8::cpu::tiled {

void cast(const KernelSet& set, const CastArgs& args);
void activation(const KernelSet& set, const ActivationArgs& args);
void activation_backward(const KernelSet& set, const ActivationBackwardArgs& args);
void norm(const KernelSet& set, const NormArgs& args);

}  // namespace tape8::cpu::tiled
