#include "gradcheck/subject.hpp"

#include <cmath>

#include <fmt/ranges.h>

namespace tape8::tools::gradcheck {
namespace {

/// FNV-1a, so that a name is the same stream on every machine.
std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t result = 0xcbf29ce484222325 ^ seed;
  for (const char c : text) {
    result = (result ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  }
  return result;
}

}  // namespace

Random::Random(std::string_view case_name, std::uint64_t seed)
    : generator_(hash(case_name, seed)) {}

double Random::number(double low, double high) {
  return low + (high - low) * static_cast<double>(generator_() >> 11) * 0x1p-53;
}

Tensor Random::uniform(const Shape& shape, DType dtype, double low, double high) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) value = number(low, high);
  return Tensor::from(values, shape, dtype);
}

Tensor Random::values(const Shape& shape, DType dtype, double most, double kink) {
  constexpr double kLeast = 0.0625;
  constexpr double kClear = 0.01;
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) {
    do {
      value = number(kLeast, most);
    } while (std::abs(value - kink) < kClear);
    if (below(2) == 0) value = -value;
  }
  return Tensor::from(values, shape, dtype);
}

Tensor Random::spread(const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  double sign = 1.0;
  for (double& value : values) value = (sign = -sign) * number(0.25, 1.5);
  return Tensor::from(values, shape, dtype);
}

std::int64_t Random::below(std::int64_t n) {
  return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(n));
}

double tolerance(const Precision& precision, DType dtype) {
  return gradcheck_tolerance(dtype, precision.roundings) * precision.factor;
}

std::string Subject::name() const {
  return fmt::format("{}/{}/{}/{}{}{}", op, to_string(dtype), recipe->name, variant,
                     variant.empty() ? "" : "/", shape);
}

bool stands_for_large(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

std::string sizes(const Shape& shape) {
  return shape.rank() == 0 ? "scalar" : fmt::format("{}", fmt::join(shape.sizes(), "x"));
}

}  // namespace tape8::tools::gradcheck
