#pragma once

#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/tensor.hpp>

#include "backend/backend.hpp"
#include "support/values.hpp"

namespace tape8::test {

inline const Device kGpu{DeviceType::cuda, 0};

inline Backend& cpu_backend() { return backend(Device{}); }
inline Backend& gpu_backend() { return backend(kGpu); }

inline std::vector<std::uint8_t> bytes_on_host(const Tensor& tensor) {
  return bytes_of(tensor.to(Device{}));
}

/// A tensor on the CPU and its copy on the GPU.
struct Pair {
  Tensor cpu, gpu;

  explicit Pair(const Tensor& values) : cpu(values), gpu(values.to(kGpu)) {}

  Input input(Device device) const {
    const Tensor& tensor = on(device);
    return {.data = tensor.data(), .dtype = tensor.dtype()};
  }
  template <class T = void>
  T* data(Device device) {
    return static_cast<T*>((device == kGpu ? gpu : cpu).mutable_data());
  }
  Output output(Device device) { return {.data = data(device), .dtype = cpu.dtype()}; }
  const Tensor& on(Device device) const { return device == kGpu ? gpu : cpu; }

  bool equal() const { return bytes_on_host(cpu) == bytes_on_host(gpu); }
  double error() const { return relative_error(values_of(gpu), values_of(cpu)); }
};

/// Memory for results, filled with NaN (or the format's nearest thing to it).
inline Pair results(const Shape& shape, DType dtype) {
  return Pair(Tensor::full(shape, std::numeric_limits<double>::quiet_NaN(), dtype));
}

/// Calls body(backend, device) for the CPU and the GPU.
template <class Body>
void on_both(const Body& body) {
  body(cpu_backend(), Device{});
  body(gpu_backend(), kGpu);
}

inline constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64};

/// Of vectors, of parts of them and of none.
inline constexpr std::int64_t kCounts[] = {0, 1, 15, 16, 1000, 10007};

}  // namespace tape8::test
