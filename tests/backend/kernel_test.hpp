#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/threads.hpp>

#include "backend/cpu/cpu_backend.hpp"
#include "core/formats.hpp"

namespace tape8::test {

/// Kernel memory: values of one type with a few bytes behind them that no kernel may touch.
class Memory {
 public:
  Memory(DType dtype, std::int64_t count)
      : dtype_(dtype), count_(count), bytes_(value_bytes() + kGuard, std::byte{0xA5}) {}

  Memory(DType dtype, const std::vector<double>& values)
      : Memory(dtype, static_cast<std::int64_t>(values.size())) {
    for (std::int64_t i = 0; i < count_; ++i) set(i, values[static_cast<std::size_t>(i)]);
  }

  Memory(DType dtype, std::initializer_list<double> values)
      : Memory(dtype, std::vector<double>(values)) {}

  std::int64_t count() const { return count_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.data());
  }

  double operator[](std::int64_t i) const {
    switch (dtype_) {
      case DType::f64:
        return get<double>(i);
      case DType::f32:
        return get<float>(i);
      case DType::bf16:
      case DType::f16:
        return decode(dtype_, get<std::uint16_t>(i));
      default:
        return decode(dtype_, get<std::uint8_t>(i));
    }
  }

  std::vector<double> values() const {
    std::vector<double> result;
    for (std::int64_t i = 0; i < count_; ++i) result.push_back((*this)[i]);
    return result;
  }

  Input input(const ScaleInv* scale_inv = nullptr) const { return {data(), dtype_, scale_inv}; }
  Output output(Amax* amax = nullptr, const Scale* scale = nullptr) {
    return {data(), dtype_, scale, amax};
  }

  /// False if a byte behind the values changed.
  bool guard_holds() const {
    return std::all_of(bytes_.begin() + static_cast<std::ptrdiff_t>(value_bytes()), bytes_.end(),
                       [](std::byte b) { return b == std::byte{0xA5}; });
  }

  friend bool operator==(const Memory& a, const Memory& b) { return a.bytes_ == b.bytes_; }

 private:
  static constexpr std::size_t kGuard = 128;

  std::size_t value_bytes() const {
    return static_cast<std::size_t>(count_) * static_cast<std::size_t>(bits(dtype_)) / 8;
  }

  template <class T>
  T get(std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return value;
  }
  template <class T>
  void put(std::int64_t i, T value) {
    std::memcpy(bytes_.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  void set(std::int64_t i, double value) {
    switch (dtype_) {
      case DType::f64:
        return put(i, value);
      case DType::f32:
        return put(i, static_cast<float>(value));
      case DType::bf16:
      case DType::f16:
        return put(i, encode(dtype_, value));
      default:
        return put(i, static_cast<std::uint8_t>(encode(dtype_, value)));
    }
  }

  DType dtype_;
  std::int64_t count_;
  std::vector<std::byte> bytes_;
};

/// Normally distributed values, the same on every run.
inline std::vector<double> random_values(std::int64_t count, unsigned seed, double deviation = 1.0,
                                         double mean = 0.0) {
  std::mt19937 generator(seed);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) {
    double sum = -6.0;  // twelve uniform numbers have variance 1
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(generator()) / 4294967296.0;
    value = mean + deviation * sum;
  }
  return values;
}

/// max |out - reference| / max |reference|; Inf where a value is not finite.
inline double relative_error(const Memory& out, const std::vector<double>& reference) {
  REQUIRE(out.count() == static_cast<std::int64_t>(reference.size()));
  double largest_error = 0.0, largest = 0.0;
  for (std::int64_t i = 0; i < out.count(); ++i) {
    const double expected = reference[static_cast<std::size_t>(i)];
    if (!std::isfinite(out[i])) return std::numeric_limits<double>::infinity();
    largest_error = std::max(largest_error, std::abs(out[i] - expected));
    largest = std::max(largest, std::abs(expected));
  }
  return largest == 0.0 ? largest_error : largest_error / largest;
}

/// One rounding to the type, relative to the largest value, and the arithmetic in f32 before it.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-10;
    default:
      return 1e-5;
  }
}

/// Runs `run(backend)`, which returns a vector of Memory, on every instruction set with one and two
/// threads; all must give the same bytes, which are returned. Small sizes use one thread anyway
/// (parallel.hpp).
template <class Run>
std::vector<Memory> same_everywhere(const Run& run) {
  const int threads_before = num_threads();
  std::vector<Memory> first;
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const int threads : {1, 2}) {
      CAPTURE(cpu::to_string(isa));
      CAPTURE(threads);
      set_num_threads(threads);
      const auto backend = cpu::make_backend(isa);
      std::vector<Memory> results = run(*backend);
      for (const Memory& memory : results) CHECK(memory.guard_holds());
      if (first.empty()) first = results;
      CHECK(results == first);
    }
  }
  set_num_threads(threads_before);
  return first;
}

inline Memory amax_memory(const Amax& amax) { return Memory(DType::f32, {amax.value}); }

}  // namespace tape8::test
