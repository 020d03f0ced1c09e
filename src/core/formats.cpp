#include "core/formats.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "core/fail.hpp"

namespace tape8 {
namespace {

/// A binary float format: sign, exponent, mantissa from the highest bit down.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  double largest;
  bool has_infinity;
  bool saturates;
  std::uint16_t nan;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint16_t sign() const {
    return static_cast<std::uint16_t>(1U << (exponent_bits + mantissa_bits));
  }
  constexpr std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1U << exponent_bits) - 1U) << mantissa_bits);
  }
};

constexpr Format kBf16{8, 7, 0x1.FEp127, true, false, 0x7FC0};
constexpr Format kF16{5, 10, 65504.0, true, false, 0x7E00};
constexpr Format kE4m3{4, 3, 448.0, false, true, 0x7F};
constexpr Format kE5m2{5, 2, 57344.0, true, true, 0x7F};
constexpr Format kE2m1{2, 1, 6.0, false, true, 0x7};

const Format& format_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return kBf16;
    case DType::f16:
      return kF16;
    case DType::e4m3:
      return kE4m3;
    case DType::e5m2:
      return kE5m2;
    case DType::e2m1:
      return kE2m1;
    case DType::f64:
    case DType::f32:
    case DType::e8m0:
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::boolean:
      break;
  }
  fail<DTypeError>("formats: must be a float format of 16 bits or less: got {}", to_string(dtype));
}

std::uint16_t encode_e8m0(double value) {
  if (std::isnan(value)) return 255;
  if (!(value > 0x1p-127)) return 0;
  if (std::isinf(value)) return 254;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  const int power = fraction == 0.5 ? exponent - 1 : exponent;
  return static_cast<std::uint16_t>(power > 127 ? 254 : power + 127);
}

}  // namespace

std::uint16_t encode(DType dtype, double value) {
  if (dtype == DType::e8m0) return encode_e8m0(value);
  const Format& format = format_of(dtype);
  if (std::isnan(value)) return format.nan;
  const std::uint16_t sign = std::signbit(value) ? format.sign() : std::uint16_t{0};
  const double magnitude = std::fabs(value);

  // Count in units of the last place, at the magnitude's exponent or that of the subnormals. The
  // default rounding of nearbyint is to nearest even; scaling by powers of two is exact.
  const int exponent =
      magnitude == 0.0 ? 1 - format.bias() : std::max(std::ilogb(magnitude), 1 - format.bias());
  const double units = std::isinf(magnitude)
                           ? magnitude
                           : std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const double rounded =
      std::isinf(units) ? units : std::ldexp(units, exponent - format.mantissa_bits);
  if (rounded > format.largest) {
    if (!format.saturates) return sign | format.infinity();
    return sign | encode(dtype, format.largest);
  }
  // Without the implicit bit, units carry over into the exponent field by themselves.
  const int field = exponent + format.bias() - 1;
  const auto code = static_cast<std::uint32_t>(units) +
                    (static_cast<std::uint32_t>(field) << format.mantissa_bits);
  return static_cast<std::uint16_t>(sign | code);
}

double decode(DType dtype, std::uint16_t code) {
  if (dtype == DType::e8m0) {
    return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
  }
  const Format& format = format_of(dtype);
  const std::uint32_t magnitude = code & (format.sign() - 1U);
  const double sign = (code & format.sign()) != 0 ? -1.0 : 1.0;
  const std::uint32_t field = magnitude >> format.mantissa_bits;
  const std::uint32_t mantissa = magnitude & ((1U << format.mantissa_bits) - 1U);
  if (format.has_infinity && magnitude >= format.infinity()) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (dtype == DType::e4m3 && magnitude == format.nan)
    return std::numeric_limits<double>::quiet_NaN();
  const std::uint32_t implicit = field == 0 ? 0U : 1U << format.mantissa_bits;
  const int exponent = (field == 0 ? 1 : static_cast<int>(field)) - format.bias();
  return sign *
         std::ldexp(static_cast<double>(mantissa | implicit), exponent - format.mantissa_bits);
}

}  // namespace tape8
