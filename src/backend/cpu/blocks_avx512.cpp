#include "backend/cpu/block_kernels.hpp"
#include "backend/cpu/simd_avx512.hpp"

namespace tape8::cpu {

const BlockKernels& avx512_block_kernels() { return kBlockKernels<avx512::Float>; }

}  // namespace tape8::cpu
