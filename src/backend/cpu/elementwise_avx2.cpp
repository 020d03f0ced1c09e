#include "backend/cpu/elementwise_kernels.hpp"
#include "backend/cpu/simd_avx2.hpp"

namespace tape8::cpu {

const Kernels& avx2_kernels() { return kKernels<avx2::Float>; }

}  // namespace tape8::cpu
