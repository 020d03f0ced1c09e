#include "backend/cpu/elementwise_kernels.hpp"
#include "backend/cpu/simd_portable.hpp"

namespace tape8::cpu {

const Kernels& portable_kernels() { return kKernels<portable::Float>; }

}  // namespace tape8::cpu
