#include "backend/cpu/block_kernels.hpp"
#include "backend/cpu/simd_avx2.hpp"

namespace tape8::cpu {

const BlockKernels& avx2_block_kernels() { return kBlockKernels<avx2::Float>; }

}  // namespace tape8::cpu
