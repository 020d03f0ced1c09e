#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "backend/backend.hpp"
#include "backend/checks.hpp"
#include "backend/cuda/context.hpp"
#include "backend/cuda/launch.hpp"
#include "backend/cuda/packed.hpp"
#include "backend/cuda/reduction.hpp"

namespace tape8::cuda {

// For kernels that go through memory as it lies, each thread one vector of elements after another.

inline constexpr int kFlatThreads = 256;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// As many blocks as there are tasks, up to what keeps every multiprocessor busy.
inline LaunchConfig flat_config(const Context& context, std::int64_t tasks) {
  constexpr std::int64_t kBlocksPerMultiprocessor = 16;
  const std::int64_t most = context.multiprocessors() * kBlocksPerMultiprocessor;
  return {.grid = dim3(static_cast<unsigned>(std::min(tasks, most))),
          .block = dim3(kFlatThreads),
          .stream = context.stream()};
}

/// One thread for N elements.
template <int N = kVector>
LaunchConfig flat_config_of(const Context& context, std::int64_t elements) {
  return flat_config(context, divide_up(elements, std::int64_t{N} * kFlatThreads));
}

/// Calls body(first element, elements of the vector) for the calling thread's vectors.
template <int N = kVector, class Body>
__device__ void for_each_vector(std::int64_t elements, const Body& body) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * N;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  for (; first < elements; first += stride) {
    const std::int64_t left = elements - first;
    body(first, left < N ? static_cast<int>(left) : N);
  }
}

/// Writes values to the sink and keeps the largest |value| for its amax.
class Writer {
 public:
  explicit __device__ Writer(const Sink& sink) : sink_(sink) {}

  template <class Real, int N>
  __device__ void store(std::int64_t index, int count, const Real (&values)[N]) {
    if (sink_.data != nullptr) sink_.store(index, count, values);
    if (sink_.amax == nullptr) return;
    for (int i = 0; i < N; ++i) {
      const std::uint32_t bits = i < count ? amax_bits(static_cast<float>(values[i])) : 0;
      bits_ = bits > bits_ ? bits : bits_;
    }
  }

  /// At the end, by all threads of the block.
  __device__ void note() const {
    if (sink_.amax != nullptr) note_amax(sink_.amax, bits_);
  }

 private:
  const Sink& sink_;
  std::uint32_t bits_ = 0;
};

/// Refuses, before anything is written, what these kernels do not have.
inline void check_operands(const char* op, bool f64, std::initializer_list<Input> inputs,
                           std::initializer_list<Output> outputs,
                           BlockSupport block_support = BlockSupport::none) {
  tape8::check_operands("cuda", op, f64, inputs, outputs, block_support);
}

/// Calls body(Real{}) with the type that an op computes in.
template <class Body>
void with_real(bool f64, const Body& body) {
  if (f64) {
    body(double{});
  } else {
    body(float{});
  }
}

}  // namespace tape8::cuda
