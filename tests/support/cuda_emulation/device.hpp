#pragma once

// The part of the CUDA language that kernels use, for a C++ compiler. src/backend/cuda/launch.hpp
// includes it where nvcc does not compile.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector_types.h>

#include <cuda_runtime_api.h>

namespace cuda_emulation {

inline constexpr int kLanes = 32;

/// What the running thread calls; block.hpp has what it means.
void wait_for_block();
const std::uint64_t* wait_for_shuffle(unsigned mask, std::uint64_t value);
const std::uint64_t* wait_for_vote(unsigned mask, bool value);
void wait_for_warp(unsigned mask);
void* shared(const void* key, std::size_t bytes);
void* dynamic_shared();
unsigned lane();

using Invoke = void (*)(const void* kernel, void** arguments);
void remember_kernel(const void* kernel, Invoke invoke);

template <class... Parameters, std::size_t... kIndex>
void invoke_with(void (*kernel)(Parameters...), void** arguments, std::index_sequence<kIndex...>) {
  kernel(*static_cast<std::remove_reference_t<Parameters>*>(arguments[kIndex])...);
}

template <class... Parameters>
void invoke(const void* kernel, void** arguments) {
  invoke_with(reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(kernel)), arguments,
              std::index_sequence_for<Parameters...>{});
}

template <class T>
std::uint64_t to_word(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}

template <class T>
T from_word(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

/// The value of a lane of the caller's part of the warp, the caller's own if there is none such.
template <class T, class Source>
T shuffle(unsigned mask, T value, int width, const Source& source) {
  const std::uint64_t* values = wait_for_shuffle(mask, to_word(value));
  const int own = static_cast<int>(lane());
  const int begin = own / width * width;
  const int from = source(own - begin);
  return from < 0 || from >= width ? value : from_word<T>(values[begin + from]);
}

/// Runs on one thread at a time: nothing comes between. Atomic so that the thread sanitizer sees it
/// as such.
template <class T, class Change>
T change(T* memory, const Change& new_value) {
  const std::atomic_ref<T> value(*memory);
  T old = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(old, new_value(old), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace cuda_emulation

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

#if !defined(__device__)
#define __device__
#endif
#if !defined(__global__)
#define __global__
#endif

#define TAPE8_SHARED(type, name, ...)                           \
  using name##_shared_type = type __VA_ARGS__;                  \
  static const char name##_shared_key = 0;                      \
  name##_shared_type& name = *static_cast<name##_shared_type*>( \
      cuda_emulation::shared(&name##_shared_key, sizeof(name##_shared_type)))

#define TAPE8_UNROLL
#define TAPE8_NO_UNROLL

inline void __syncthreads() { cuda_emulation::wait_for_block(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) { cuda_emulation::wait_for_warp(mask); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = cuda_emulation::kLanes) {
  return cuda_emulation::shuffle(mask, value, width, [=](int) { return source % width; });
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = cuda_emulation::kLanes) {
  return cuda_emulation::shuffle(mask, value, width, [=](int own) { return own ^ lanes; });
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = cuda_emulation::kLanes) {
  return cuda_emulation::shuffle(mask, value, width,
                                 [=](int own) { return own + static_cast<int>(delta); });
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = cuda_emulation::kLanes) {
  return cuda_emulation::shuffle(mask, value, width,
                                 [=](int own) { return own - static_cast<int>(delta); });
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const std::uint64_t* votes = cuda_emulation::wait_for_vote(mask, predicate != 0);
  unsigned result = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1U) != 0 && votes[i] != 0) result |= 1U << i;
  }
  return result;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}

template <class T>
T atomicAdd(T* memory, T value) {
  return cuda_emulation::change(memory, [=](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* memory, T value) {
  return cuda_emulation::change(memory, [=](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* memory, T value) {
  return cuda_emulation::change(memory, [=](T old) { return std::min(old, value); });
}
template <class T>
T atomicExch(T* memory, T value) {
  return cuda_emulation::change(memory, [=](T) { return value; });
}
template <class T>
T atomicCAS(T* memory, T expected, T value) {
  return cuda_emulation::change(memory, [=](T old) { return old == expected ? value : old; });
}

template <class T>
T __ldg(const T* memory) {
  return *memory;
}

inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
inline int __popc(unsigned value) { return std::popcount(value); }

namespace tape8::cuda {

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(cuda_emulation::dynamic_shared());
}

/// So that a launch, which has no types, can call the kernel.
template <class... Parameters>
void make_known(void (*kernel)(Parameters...)) {
  cuda_emulation::remember_kernel(reinterpret_cast<const void*>(kernel),
                                  cuda_emulation::invoke<Parameters...>);
}

}  // namespace tape8::cuda
