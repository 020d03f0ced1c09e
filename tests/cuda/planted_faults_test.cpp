// Faults that only a sanitizer sees, and at which it ends the program: skipped but where ctest asks
// for one of them and expects the report (CMakeLists.txt).

#include <doctest/doctest.h>

#include <tape8/core/device.hpp>
#include <tape8/core/tensor.hpp>

#include "backend/cuda/context.hpp"
#include "backend/cuda/packed.hpp"

namespace tape8::test {
namespace {

constexpr unsigned kThreads = 64;

/// All threads write the same, whatever their order.
__global__ void write_same(int* values) { values[0] = 7; }

/// One thread of each block does.
__global__ void blocks_write_same(int* values) {
  if (threadIdx.x == blockIdx.x) values[0] = 7;
}

/// Lanes of a warp, which a shuffle does not order.
__global__ void write_after_shuffle(int* values) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane == 0) values[threadIdx.x / 32] = 7;
  __shfl_sync(0xFFFFFFFFU, lane, 0);
  if (lane == 1) values[threadIdx.x / 32] = 7;
}

__global__ void overrun_shared(int* values) {
  TAPE8_SHARED(int, shared, [kThreads]);
  int* const next = shared + 1;  // an index past the array's end is the other sanitizer's
  next[threadIdx.x] = 7;
  __syncthreads();
  values[threadIdx.x] = shared[threadIdx.x];
}

__global__ void overrun_memory(int* values) { values[threadIdx.x + 1] = 7; }

__global__ void load_misaligned(int* values) {
  using Part = cuda::Chunk<16>;
  const auto* parts = reinterpret_cast<const Part*>(values + 1);
  values[threadIdx.x] = static_cast<int>(parts[0].words[0]);
}

void run(void (*kernel)(int*), unsigned blocks = 1) {
  Tensor values = Tensor::zeros({kThreads}, DType::i32, Device{DeviceType::cuda, 0});
  cuda::launch(
      kernel,
      {.grid = dim3(blocks), .block = dim3(kThreads), .stream = cuda::Context::of(0).stream()},
      static_cast<int*>(values.mutable_data()));
}

TEST_CASE("planted: race" * doctest::skip()) { run(write_same); }
TEST_CASE("planted: race of blocks" * doctest::skip()) { run(blocks_write_same, 2); }
TEST_CASE("planted: race of lanes" * doctest::skip()) { run(write_after_shuffle); }
TEST_CASE("planted: overrun of shared memory" * doctest::skip()) { run(overrun_shared); }
TEST_CASE("planted: overrun of memory" * doctest::skip()) { run(overrun_memory); }
TEST_CASE("planted: misaligned load" * doctest::skip()) { run(load_misaligned); }

}  // namespace
}  // namespace tape8::test
