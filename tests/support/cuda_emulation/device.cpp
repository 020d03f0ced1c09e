#include "cuda_emulation/device.hpp"

#include "cuda_emulation/block.hpp"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_emulation {

void wait_for_block() { Block::current()->wait_for_block(); }

const std::uint64_t* wait_for_shuffle(unsigned mask, std::uint64_t value) {
  return Block::current()->wait_for_warp(WarpCall::shuffle, mask, value);
}

const std::uint64_t* wait_for_vote(unsigned mask, bool value) {
  return Block::current()->wait_for_warp(WarpCall::vote, mask, value ? 1 : 0);
}

void wait_for_warp(unsigned mask) { Block::current()->wait_for_warp(WarpCall::sync, mask, 0); }

void* shared(const void* key, std::size_t bytes) { return Block::current()->shared(key, bytes); }

void* dynamic_shared() { return Block::current()->dynamic_shared(); }

unsigned lane() {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  return thread % kWarpLanes;
}

}  // namespace cuda_emulation
