#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "core/formats.hpp"

// Matrices in every layout and type, and their product in the order that GemmArgs promises, written
// apart from the kernels under test.

namespace tape8::gemm_test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr DType kOperandTypes[] = {DType::f32, DType::bf16, DType::f16, DType::e4m3,
                                          DType::e5m2};

struct Size {
  std::int64_t m, n, k;
};

inline std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Values in memory of some type, written and read through the byte tables of core.
class Memory {
 public:
  Memory(DType dtype, std::int64_t count)
      : dtype_(dtype), bytes_(index(std::max<std::int64_t>(count, 1) * bits(dtype) / 8), 0xA5) {}

  void set(std::int64_t i, float value) {
    if (dtype_ == DType::f32) return write(i, value);
    if (bits(dtype_) == 16) return write(i, encode(dtype_, value));
    write(i, static_cast<std::uint8_t>(encode(dtype_, value)));
  }

  float get(std::int64_t i) const {
    if (dtype_ == DType::f32) return read<float>(i);
    if (bits(dtype_) == 16) return static_cast<float>(decode(dtype_, read<std::uint16_t>(i)));
    return static_cast<float>(decode(dtype_, read<std::uint8_t>(i)));
  }

  DType dtype() const { return dtype_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  template <class T>
  void write(std::int64_t i, T value) {
    std::memcpy(bytes_.data() + index(i) * sizeof(T), &value, sizeof(T));
  }
  template <class T>
  T read(std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + index(i) * sizeof(T), sizeof(T));
    return value;
  }

  DType dtype_;
  std::vector<unsigned char> bytes_;
};

/// A matrix whose values `dtype` has, in both layouts.
struct Matrix {
  std::int64_t rows, cols;
  Memory plain, transposed;

  template <class Generator>
  Matrix(std::int64_t row_count, std::int64_t col_count, DType dtype, Generator&& next)
      : rows(row_count),
        cols(col_count),
        plain(dtype, row_count * col_count),
        transposed(dtype, row_count * col_count) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const float value = next();
        plain.set(r * cols + c, value);
        transposed.set(c * rows + r, value);
      }
    }
  }

  float at(std::int64_t r, std::int64_t c) const { return plain.get(r * cols + c); }
  DType dtype() const { return plain.dtype(); }
  GemmOperand operand(bool transpose) const {
    return {
        .data = (transpose ? transposed : plain).data(), .dtype = dtype(), .transposed = transpose};
  }
};

inline auto normal(std::uint64_t seed) {
  return
      [engine = std::mt19937_64(seed), distribution = std::normal_distribution<float>()]() mutable {
        return distribution(engine);
      };
}

inline float flush(float value) {
  return std::fabs(value) < 0x1p-126F ? std::copysign(0.0F, value) : value;
}

/// One step of vdpbf16ps for bf16 a and b: the exact sum rounded to odd in f64, moved away from the
/// subnormals of f32, rounded to 24 bits, and only then compared with the smallest normal number.
inline float flushed_fma(float a, float b, float c) {
  const double product = static_cast<double>(flush(a)) * static_cast<double>(flush(b));
  double sum = product + c;
  if (!std::isfinite(sum)) return static_cast<float>(sum);
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  if (error != 0.0) {
    auto bits = std::bit_cast<std::uint64_t>(sum);
    if ((error < 0.0) != (sum < 0.0)) --bits;
    sum = std::bit_cast<double>(bits | 1U);
  }
  if (std::fabs(sum) > 1.0) return static_cast<float>(sum);
  const auto rounded = static_cast<float>(sum * 0x1p100);
  return std::fabs(rounded) < 0x1p-26F ? std::copysign(0.0F, rounded) : rounded * 0x1p-100F;
}

inline bool is_narrow(DType dtype) { return dtype == DType::bf16 || is_fp8(dtype); }

/// Element (r, c) of a * b in the order that GemmArgs promises.
inline float exact_sum(const std::vector<float>& a, const std::vector<float>& b, const Size& size,
                       bool narrow, std::int64_t r, std::int64_t c) {
  const float* row = a.data() + r * size.k;
  const float* col = b.data() + c * size.k;
  float sum = 0.0F;
  if (!narrow) {
    for (std::int64_t k = 0; k < size.k; ++k) sum = std::fma(row[k], col[k], sum);
    return sum;
  }
  for (std::int64_t k = 0; k < size.k; k += 2) {
    const bool odd = k + 1 < size.k;
    sum = flushed_fma(odd ? row[k + 1] : 0.0F, odd ? col[k + 1] : 0.0F, sum);
    sum = flushed_fma(row[k], col[k], sum);
  }
  return sum;
}

/// a * b in that order for every `stride`-th element; the others are NaN.
inline std::vector<float> exact_product(const Matrix& a, const Matrix& b, std::int64_t stride = 1) {
  const Size size{a.rows, b.cols, a.cols};
  std::vector<float> rows(index(size.m * size.k)), cols(index(size.n * size.k));
  for (std::int64_t r = 0; r < size.m; ++r) {
    for (std::int64_t k = 0; k < size.k; ++k) rows[index(r * size.k + k)] = a.at(r, k);
  }
  for (std::int64_t c = 0; c < size.n; ++c) {
    for (std::int64_t k = 0; k < size.k; ++k) cols[index(c * size.k + k)] = b.at(k, c);
  }
  const bool narrow = is_narrow(a.dtype()) && is_narrow(b.dtype());
  std::vector<float> d(index(size.m * size.n), kNan);
  for (std::int64_t i = 0; i < size.m * size.n; i += stride) {
    d[index(i)] = exact_sum(rows, cols, size, narrow, i / size.n, i % size.n);
  }
  return d;
}

inline bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Number of elements, of every `stride`-th, that differ in any bit; NaNs are alike.
inline std::int64_t differing(const Memory& d, const std::vector<float>& expected,
                              std::int64_t stride = 1) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < expected.size(); i += index(stride)) {
    count += same_bits(d.get(static_cast<std::int64_t>(i)), expected[i]) ? 0 : 1;
  }
  return count;
}

inline std::string describe(const Matrix& a, const Matrix& b, bool transpose_a, bool transpose_b) {
  return std::string(to_string(a.dtype())) + " x " + std::string(to_string(b.dtype())) + " " +
         std::to_string(a.rows) + "x" + std::to_string(b.cols) + "x" + std::to_string(a.cols) +
         " " + (transpose_a ? "T" : "N") + (transpose_b ? "T" : "N");
}

}  // namespace tape8::gemm_test
