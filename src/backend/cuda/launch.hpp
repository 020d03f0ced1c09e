#pragma once

// The CUDA language for kernel files: nvcc compiles them for GPUs, and a C++ compiler for the
// emulation under tests/support/cuda_emulation. A kernel file includes no other header of CUDA's.

#include <cstddef>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda_runtime.h>

/// Shared memory of a block: TAPE8_SHARED(float, sums, [32]) declares float sums[32].
#define TAPE8_SHARED(type, name, ...) __shared__ type name __VA_ARGS__
/// Before a loop over an array that has to stay in registers.
#define TAPE8_UNROLL _Pragma("unroll")
#define TAPE8_NO_UNROLL _Pragma("unroll 1")

namespace tape8::cuda {

/// The memory that a launch asked for with shared_bytes.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char tape8_dynamic_shared[];
  return reinterpret_cast<T*>(tape8_dynamic_shared);
}

template <class Kernel>
void make_known(Kernel*) {}

}  // namespace tape8::cuda
#else
#include <cuda_emulation/device.hpp>
#endif

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include "backend/cuda/check.hpp"

namespace tape8::cuda {

struct LaunchConfig {
  dim3 grid{1};
  dim3 block{1};
  cudaStream_t stream = nullptr;
  std::size_t shared_bytes = 0;
};

/// Runs a kernel on the stream, its arguments converted as a call would. A grid without blocks runs
/// nothing.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchConfig& config,
            const std::type_identity_t<Parameters>&... arguments) {
  if (config.grid.x == 0 || config.grid.y == 0 || config.grid.z == 0) return;
  make_known(kernel);
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  cudaLaunchConfig_t launch_config{};
  launch_config.gridDim = config.grid;
  launch_config.blockDim = config.block;
  launch_config.dynamicSmemBytes = config.shared_bytes;
  launch_config.stream = config.stream;
  check(cudaLaunchKernelExC(&launch_config, reinterpret_cast<const void*>(kernel), pointers),
        "cudaLaunchKernelExC");
}

}  // namespace tape8::cuda
