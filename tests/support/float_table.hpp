#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <tape8/core/dtype.hpp>
#include <tape8/core/tensor.hpp>

#include "support/values.hpp"

namespace tape8::test {

/// All values of a small float format, built by counting up in units of the last place, and casts
/// found by searching them: nothing shared with the code under test.
class FloatTable {
 public:
  explicit FloatTable(DType dtype) {
    switch (dtype) {
      case DType::e4m3:
        build(3, 0x1p-9, 0x7E);
        nan_ = 0x7F;
        break;
      case DType::e5m2:
        build(2, 0x1p-16, 0x7B);
        nan_ = 0x7F;
        break;
      case DType::e2m1:
        build(1, 0.5, 0x7);
        nan_ = 0x7;
        break;
      case DType::bf16:
        build(7, 0x1p-133, 0x7F7F);
        nan_ = 0x7FC0;
        saturates_ = false;
        break;
      case DType::f16:
        build(10, 0x1p-24, 0x7BFF);
        nan_ = 0x7E00;
        saturates_ = false;
        break;
      default:
        break;
    }
    sign_ = dtype == DType::e2m1 ? 0x8 : bits(dtype) == 8 ? 0x80 : 0x8000;
  }

  /// The finite values from 0 up; the index is the code.
  const Values& values() const { return values_; }
  std::uint16_t sign() const { return sign_; }
  double largest() const { return values_.back(); }

  /// To nearest even; too large values saturate in the low-precision formats and are Inf in 16
  /// bits.
  std::uint16_t encode(double value) const {
    if (std::isnan(value)) return nan_;
    const std::uint16_t sign = std::signbit(value) ? sign_ : std::uint16_t{0};
    return static_cast<std::uint16_t>(sign | encode_magnitude(std::fabs(value)));
  }

  /// The value of a code that is not Inf or NaN.
  double decode(std::uint16_t code) const {
    const auto index = static_cast<std::size_t>(code & (sign_ - 1));
    const double magnitude =
        index < values_.size() ? values_[index] : std::numeric_limits<double>::quiet_NaN();
    return (code & sign_) != 0 ? -magnitude : magnitude;
  }

 private:
  void build(int mantissa_bits, double smallest, std::uint16_t last_code) {
    const int per_binade = 1 << mantissa_bits;
    double unit = smallest;
    values_.push_back(0.0);
    for (int code = 1; code <= last_code; ++code) {
      values_.push_back(values_.back() + unit);
      if (code > per_binade && code % per_binade == 0) unit *= 2.0;
    }
    overflow_ = values_.back() + unit;  // what would come next
  }

  std::uint16_t encode_magnitude(double magnitude) const {
    const auto count = values_.size();
    if (magnitude >= values_.back()) {
      const bool up = magnitude >= (values_.back() + overflow_) / 2.0;
      return static_cast<std::uint16_t>(up && !saturates_ ? count : count - 1);
    }
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    const auto high = static_cast<std::size_t>(above - values_.begin());
    const std::size_t low = high - 1;
    const double middle = (values_[low] + values_[high]) / 2.0;  // exact: the unit halves
    if (magnitude == middle) return static_cast<std::uint16_t>(low % 2 == 0 ? low : high);
    return static_cast<std::uint16_t>(magnitude < middle ? low : high);
  }

  Values values_;
  double overflow_ = 0.0;
  std::uint16_t nan_ = 0;
  std::uint16_t sign_ = 0;
  bool saturates_ = true;
};

inline const FloatTable& float_table(DType dtype) {
  static const FloatTable e4m3(DType::e4m3);
  static const FloatTable e5m2(DType::e5m2);
  static const FloatTable e2m1(DType::e2m1);
  static const FloatTable bf16(DType::bf16);
  static const FloatTable f16(DType::f16);
  switch (dtype) {
    case DType::e4m3:
      return e4m3;
    case DType::e5m2:
      return e5m2;
    case DType::e2m1:
      return e2m1;
    case DType::f16:
      return f16;
    default:
      return bf16;
  }
}

/// `values` rounded once to `dtype`.
inline Values rounded(const Values& values, DType dtype) {
  Values result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::f64:
        result[i] = values[i];
        break;
      case DType::f32:
        result[i] = static_cast<double>(static_cast<float>(values[i]));
        break;
      default:
        result[i] = float_table(dtype).decode(float_table(dtype).encode(values[i]));
    }
  }
  return result;
}

/// The bytes of an FP8 cast of f32 values: times scale in f32, then to nearest even with
/// saturation.
inline std::vector<std::uint8_t> cast_bytes(const Values& values, float scale, DType fp8) {
  std::vector<std::uint8_t> bytes(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scaled = static_cast<float>(values[i]) * scale;
    bytes[i] = static_cast<std::uint8_t>(float_table(fp8).encode(static_cast<double>(scaled)));
  }
  return bytes;
}

/// What a matmul reads after such a cast: the decoded bytes times 1 / scale, in float64.
inline Values cast_and_decoded(const Values& values, float scale, DType fp8) {
  const double scale_inv = static_cast<double>(1.0F / scale);
  const std::vector<std::uint8_t> bytes = cast_bytes(values, scale, fp8);
  Values result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    result[i] = float_table(fp8).decode(bytes[i]) * scale_inv;
  }
  return result;
}

}  // namespace tape8::test
