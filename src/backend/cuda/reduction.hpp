#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cuda/launch.hpp"

namespace tape8::cuda {

inline constexpr int kWarp = 32;

/// The sum over a warp, the same in each lane. In a fixed order: a tree of neighbours.
template <class Real>
__device__ Real warp_sum(Real value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  }
  return value;
}

/// The sum over a block of whole warps, at most 1024 threads, the same in each thread. All threads
/// must call it. `sums` is shared memory of 32, free for the next use only after a barrier.
template <class Real>
__device__ Real block_sum(Real value, Real* sums) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned warps = blockDim.x / kWarp;
  value = warp_sum(value);
  if (warps == 1) return value;
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  value = warp_sum(lane < warps ? sums[lane] : Real{0});
  __syncthreads();
  return value;
}

/// |value| as bits that compare as it does, NaN above all.
inline __device__ std::uint32_t amax_bits(float value) {
  return __float_as_uint(value) & 0x7FFFFFFFU;
}

/// Makes *amax the largest |value| of the block's threads and of what it was. Any order gives the
/// same. All threads of the block's warps must call it.
inline __device__ void note_amax(Amax* amax, std::uint32_t bits) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xFFFFFFFFU, bits, offset);
    bits = bits > other ? bits : other;
  }
  if (threadIdx.x % kWarp == 0 && bits != 0) {
    atomicMax(reinterpret_cast<unsigned*>(amax), bits);
  }
}

/// Before a kernel that notes an amax: zero.
inline void clear_amax(Amax* amax, cudaStream_t stream) {
  if (amax != nullptr) check(cudaMemsetAsync(amax, 0, sizeof(Amax), stream), "cudaMemsetAsync");
}

}  // namespace tape8::cuda
