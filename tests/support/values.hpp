#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <tape8/core/tensor.hpp>

namespace tape8::test {

/// Row-major values in float64, in which all references compute.
using Values = std::vector<double>;

/// Uniform values from a generator other than the library's.
inline Values random_values(std::int64_t count, std::uint64_t seed, double low = -1.0,
                            double high = 1.0) {
  std::mt19937_64 generator(seed);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) {
    value = low + (high - low) * static_cast<double>(generator() >> 11) * 0x1p-53;
  }
  return values;
}

inline Tensor random_tensor(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32,
                            double low = -1.0, double high = 1.0) {
  return Tensor::from(random_values(shape.numel(), seed, low, high), shape, dtype);
}

inline Values values_of(const Tensor& tensor) { return tensor.to_vector<double>(); }

inline double largest_magnitude(const Values& values) {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

/// max |out - reference| / max |reference|; Inf for sizes that differ or a value that is not
/// finite, so that no NaN passes. A reference of zeros must be met exactly.
inline double relative_error(const Values& out, const Values& reference) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (out.size() != reference.size()) return kInfinity;
  double worst = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!std::isfinite(out[i]) || !std::isfinite(reference[i])) return kInfinity;
    worst = std::max(worst, std::fabs(out[i] - reference[i]));
  }
  if (worst == 0.0) return 0.0;
  return worst / largest_magnitude(reference);
}

/// How far a result may be from float64 on the same operands, over the largest magnitude: sums of a
/// few hundred f32 products stay below 1e-5; a result in 16 bits is rounded once, to half an ulp.
inline double tolerance(DType dtype) {
  if (dtype == DType::bf16) return 0x1p-8;
  if (dtype == DType::f16) return 0x1p-10;
  return dtype == DType::f64 ? 1e-12 : 1e-5;
}

/// The gradient of f at x by central differences.
inline Values central_differences(const std::function<double(const Values&)>& f, Values x,
                                  double step = 1e-5) {
  Values gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + step;
    const double above = f(x);
    x[i] = at - step;
    const double below = f(x);
    x[i] = at;
    gradient[i] = (above - below) / (2.0 * step);
  }
  return gradient;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The bytes of a contiguous tensor, to compare bit for bit.
inline std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  const Tensor plain = tensor.contiguous();
  const auto* data = static_cast<const std::uint8_t*>(plain.data());
  return {data, data + plain.nbytes()};
}

}  // namespace tape8::test
