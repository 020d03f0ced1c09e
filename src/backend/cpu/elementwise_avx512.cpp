#include "backend/cpu/elementwise_kernels.hpp"
#include "backend/cpu/simd_avx512.hpp"

namespace tape8::cpu {

const Kernels& avx512_kernels() { return kKernels<avx512::Float>; }

}  // namespace tape8::cpu
