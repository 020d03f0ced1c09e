#include "backend/cpu/block_kernels.hpp"
#include "backend/cpu/simd_portable.hpp"

namespace tape8::cpu {

const BlockKernels& portable_block_kernels() { return kBlockKernels<portable::Float>; }

}  // namespace tape8::cpu
