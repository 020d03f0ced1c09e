// What a GPU would leave undefined, planted: each fault is found, beside a kernel without it.

#include "cuda_emulation/emulation.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/device.hpp>
#include <tape8/core/error.hpp>
#include <tape8/core/tensor.hpp>

#include "backend/cuda/context.hpp"
#include "backend/cuda/launch.hpp"

namespace tape8::test {
namespace {

using cuda_emulation::Error;
using cuda_emulation::Schedule;

constexpr unsigned kThreads = 128;

/// Each thread's value goes to its mirror image, through shared memory, twice.
template <bool kReadBarrier, bool kWriteBarrier>
__global__ void mirror(int* values) {
  TAPE8_SHARED(int, shared, [kThreads]);
  for (int pass = 0; pass < 2; ++pass) {
    shared[threadIdx.x] = values[threadIdx.x] + pass;
    if (kReadBarrier) __syncthreads();
    values[threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
    if (kWriteBarrier) __syncthreads();
  }
}

__global__ void shuffle_all(int* values) {
  values[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFU, values[threadIdx.x], 16);
}

__global__ void shuffle_half(int* values) {
  if (threadIdx.x % 32 < 16) {
    values[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFU, values[threadIdx.x], 16);
  }
}

__global__ void shuffle_named_half(int* values) {
  if (threadIdx.x % 32 < 16) {
    values[threadIdx.x] = __shfl_xor_sync(0x0000FFFFU, values[threadIdx.x], 8);
  }
}

__global__ void barrier_in_branch(int* values) {
  if (threadIdx.x < 64) __syncthreads();
  values[threadIdx.x] = 0;
}

__global__ void vote_or_shuffle(int* values) {
  values[threadIdx.x] = threadIdx.x % 2 == 0 ? __any_sync(0xFFFFFFFFU, 1)
                                             : __shfl_sync(0xFFFFFFFFU, values[threadIdx.x], 0);
}

/// Each block doubles what it finds and adds its own number.
__global__ void race(int* values) {
  if (threadIdx.x == 0) values[0] = 2 * values[0] + static_cast<int>(blockIdx.x);
}

__global__ void fill(int* values, int value) { values[threadIdx.x] = value; }

__global__ void much_shared(int* values) {
  TAPE8_SHARED(int, shared, [13 * 1024]);
  shared[threadIdx.x] = 1;
  values[threadIdx.x] = shared[threadIdx.x];
}

/// Results of kernel(values) on 0, 1, 2, ...
std::vector<int> results(void (*kernel)(int*), Schedule schedule, unsigned blocks = 1) {
  std::vector<int> start(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) start[i] = static_cast<int>(i);
  Tensor values = Tensor::from(start, {kThreads}).to(Device{DeviceType::cuda, 0});
  const Schedule before = cuda_emulation::schedule();
  cuda_emulation::set_schedule(schedule);
  try {
    cuda::launch(
        kernel,
        {.grid = dim3(blocks), .block = dim3(kThreads), .stream = cuda::Context::of(0).stream()},
        static_cast<int*>(values.mutable_data()));
  } catch (...) {
    cuda_emulation::set_schedule(before);
    throw;
  }
  cuda_emulation::set_schedule(before);
  return values.to_vector<int>();
}

bool same_in_all_schedules(void (*kernel)(int*)) {
  const std::vector<int> expected = results(kernel, Schedule::forward);
  for (const Schedule schedule : cuda_emulation::kSchedules) {
    if (results(kernel, schedule) != expected) return false;
  }
  return true;
}

TEST_CASE("emulation: a missing barrier shows in one of the schedules") {
  CHECK(same_in_all_schedules(mirror<true, true>));
  CHECK_FALSE(same_in_all_schedules(mirror<false, true>));
  CHECK_FALSE(same_in_all_schedules(mirror<true, false>));
  std::vector<int> expected(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) expected[i] = static_cast<int>(i) + 1;
  CHECK(results(mirror<true, true>, Schedule::greedy_warp) == expected);
}

TEST_CASE("emulation: blocks that race show in one of the schedules") {
  CHECK(results(race, Schedule::forward, 3)[0] == 4);
  CHECK(results(race, Schedule::reverse, 3)[0] == 10);
}

TEST_CASE("emulation: lanes that a warp's call names must come, to the same call") {
  for (const Schedule schedule : cuda_emulation::kSchedules) {
    const std::vector<int> shuffled = results(shuffle_all, schedule);
    CHECK(shuffled[0] == 16);
    CHECK(shuffled[50] == 34);
    CHECK(results(shuffle_named_half, schedule)[3] == 11);
    CHECK_THROWS_AS(results(shuffle_half, schedule), Error);
    CHECK_THROWS_AS(results(vote_or_shuffle, schedule), Error);
  }
}

TEST_CASE("emulation: all threads of a block must come to a barrier") {
  for (const Schedule schedule : cuda_emulation::kSchedules) {
    CHECK_THROWS_AS(results(barrier_in_branch, schedule), Error);
  }
}

TEST_CASE("emulation: launches past a GPU's limits") {
  CHECK_THROWS_AS(results(much_shared, Schedule::forward), Error);
  cuda::Context& context = cuda::Context::of(0);
  Tensor values = Tensor::empty({2048}, DType::i32, Device{DeviceType::cuda, 0});
  auto* data = static_cast<int*>(values.mutable_data());
  cuda::launch(fill, {.block = dim3(1024), .stream = context.stream()}, data, 3);
  CHECK(values.to_vector<int>()[1023] == 3);
  CHECK_THROWS_AS(cuda::launch(fill, {.block = dim3(1025), .stream = context.stream()}, data, 3),
                  Error);
  CHECK_THROWS_AS(
      cuda::launch(
          fill,
          {.block = dim3(32), .stream = context.stream(), .shared_bytes = std::size_t{49} << 10U},
          data, 3),
      Error);
  CHECK_THROWS_AS(
      cuda::launch(fill, {.block = dim3(32), .stream = reinterpret_cast<cudaStream_t>(99)}, data,
                   3),
      Error);
}

TEST_CASE("emulation: memory of the wrong kind, or too much of it") {
  cuda::Context& context = cuda::Context::of(0);
  int host[4] = {};
  Tensor values = Tensor::zeros({4}, DType::i32, Device{DeviceType::cuda, 0});
  CHECK_THROWS_AS(
      cudaMemcpyAsync(host, values.data(), 16, cudaMemcpyHostToDevice, context.stream()), Error);
  CHECK_THROWS_AS(
      cudaMemcpyAsync(values.mutable_data(), host, 20, cudaMemcpyHostToDevice, context.stream()),
      Error);
  CHECK_THROWS_AS(cudaMemsetAsync(host, 0, 16, context.stream()), Error);
}

TEST_CASE("cuda: out of memory is a BackendError, and what there is goes on") {
  const Device gpu{DeviceType::cuda, 0};
  const Tensor kept = Tensor::full({8}, 2.0, DType::f32, gpu);
  const std::size_t memory = cuda_emulation::machine().memory;
  cuda_emulation::machine().memory = 1 << 20;
  std::string message;
  try {
    Tensor::empty({1 << 20}, DType::f32, gpu);
  } catch (const BackendError& error) {
    message = error.what();
  }
  cuda_emulation::machine().memory = memory;
  CHECK(message == "cuda: cudaMallocAsync: cudaErrorMemoryAllocation (2): out of memory");
  CHECK(kept.to_vector<float>() == std::vector<float>(8, 2.0F));
  CHECK_NOTHROW(Tensor::empty({1 << 20}, DType::f32, gpu));
}

TEST_CASE("cuda: a device that does not exist") {
  const auto count = cuda_emulation::machine().compute_capabilities.size();
  const Device none{DeviceType::cuda, static_cast<int>(count)};
  CHECK_THROWS_WITH_AS(Tensor::empty({1}, DType::f32, none),
                       "cuda: device must be one of 5: got cuda:5", BackendError);
  CHECK_THROWS_AS(Tensor::empty({1}, DType::f32, Device{DeviceType::cuda, -1}), BackendError);
}

}  // namespace
}  // namespace tape8::test
