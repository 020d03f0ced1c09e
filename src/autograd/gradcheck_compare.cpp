#include "autograd/gradcheck_compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/fail.hpp"

namespace tape8 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The largest difference of two lists of one length, and where it is.
struct Distance {
  double largest = 0.0;
  std::size_t at = 0;
};

Distance distance(const std::vector<double>& a, const std::vector<double>& b) {
  Distance result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (difference > result.largest) result = {difference, i};
  }
  return result;
}

std::size_t first_not_finite(const std::vector<double>& values) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [](double value) { return !std::isfinite(value); });
  return static_cast<std::size_t>(found - values.begin());
}

/// The factor by which `values` are off as a whole; 1 unless there is one.
double common_factor(const std::vector<double>& values, const Expected& expected) {
  double dot = 0.0;
  double square = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    dot += values[i] * expected.values[i];
    square += expected.values[i] * expected.values[i];
  }
  const double factor = dot / square;
  std::vector<double> scaled = expected.values;
  for (double& value : scaled) value *= factor;
  const bool fits = distance(values, scaled).largest <=
                    expected.tolerance * std::abs(factor) * largest_magnitude(expected.values);
  return fits ? factor : 1.0;
}

bool near_unquantized(const std::vector<double>& values, const Expected& expected) {
  return expected.unquantized.size() == values.size() &&
         distance(values, expected.unquantized).largest <=
             expected.tolerance * largest_magnitude(expected.unquantized);
}

/// What is wrong with values that are off, if it shows.
std::string diagnosis(const ComparedValues& actual, const Expected& expected) {
  if (!actual.arrived) return ": no gradient arrived";
  if (largest_magnitude(actual.values) == 0.0) return ": it is zero throughout";
  if (near_unquantized(actual.values, expected)) return ": nothing was quantized";
  // A rate that is nearly 1 is no better explanation than none.
  const double factor = common_factor(actual.values, expected);
  if (std::abs(factor - 1.0) > expected.tolerance) {
    return fmt::format(": it is {:.3g} times what it should be", factor);
  }
  return {};
}

Comparison decided(Comparison comparison, Verdict verdict, double error, const std::string& why) {
  comparison.verdict = verdict;
  comparison.error = error;
  comparison.message = fmt::format("{}: {}", comparison.name, why);
  return comparison;
}

double ratio(const Comparison& comparison) { return comparison.error / comparison.tolerance; }

}  // namespace

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void check_tolerance(double tolerance) {
  if (!(tolerance > 0.0 && tolerance < kMaxGradcheckTolerance)) {
    fail<OptionError>("gradcheck: tolerance must be above 0 and below {}: got {}",
                      kMaxGradcheckTolerance, tolerance);
  }
}

Comparison compare_values(std::string name, const ComparedValues& actual,
                          const Expected& expected) {
  Comparison result{.name = std::move(name), .tolerance = expected.tolerance};
  const std::vector<double>& values = actual.values;
  if (values.empty() || expected.values.empty()) {
    const bool both = values.empty() && expected.values.empty();
    return decided(std::move(result), Verdict::inconclusive, 0.0,
                   both ? "there are no elements, which shows nothing"
                        : "there is nothing to compare it with");
  }
  if (values.size() != expected.values.size()) {
    return decided(
        std::move(result), Verdict::failed, kInfinity,
        fmt::format("has {} elements, the reference {}", values.size(), expected.values.size()));
  }
  const auto point_at = [&](std::size_t index) {
    result.element =
        actual.elements.empty() ? static_cast<std::int64_t>(index) : actual.elements[index];
    result.value = values[index];
    result.reference = expected.values[index];
  };
  const std::size_t not_finite =
      std::min(first_not_finite(values), first_not_finite(expected.values));
  if (not_finite < values.size()) {
    point_at(not_finite);
    return decided(std::move(result), Verdict::failed, kInfinity,
                   fmt::format("element {} is {}, should be {}", result.element, result.value,
                               result.reference));
  }

  const Distance off = distance(values, expected.values);
  point_at(off.at);
  const double scale = largest_magnitude(expected.values);
  if (scale == 0.0 && off.largest == 0.0) {
    return decided(std::move(result), Verdict::inconclusive, 0.0,
                   "all of it and of the reference is zero, which shows nothing");
  }
  const double error = off.largest / scale;
  if (error > result.tolerance) {
    const std::string why =
        fmt::format("error {:.2e} exceeds {:.2e}: element {} is {:.6g}, should be {:.6g}{}", error,
                    result.tolerance, result.element, result.value, result.reference,
                    scale == 0.0 ? "" : diagnosis(actual, expected));
    return decided(std::move(result), Verdict::failed, error, why);
  }
  if (near_unquantized(expected.values, expected)) {
    return decided(std::move(result), Verdict::inconclusive, error,
                   fmt::format("within the tolerance of {:.2e} quantization makes no difference",
                               expected.tolerance));
  }
  const std::string why = fmt::format("error {:.2e} is within {:.2e}", error, expected.tolerance);
  return decided(std::move(result), Verdict::passed, error, why);
}

Comparison compare(std::string name, const Tensor& tensor, const Expected& expected) {
  Expected limited = expected;
  if (limited.tolerance == 0.0) {
    limited.tolerance = gradcheck_tolerance(tensor.defined() ? tensor.dtype() : DType::f32);
  }
  check_tolerance(limited.tolerance);
  const ComparedValues actual{.values = tensor.defined()
                                            ? tensor.to_vector<double>()
                                            : std::vector<double>(expected.values.size()),
                              .arrived = tensor.defined()};
  if (actual.values.size() == limited.values.size() && !limited.unquantized.empty() &&
      limited.unquantized.size() != limited.values.size()) {
    fail<OptionError>("compare: unquantized must be none or {} values: got {}",
                      limited.values.size(), limited.unquantized.size());
  }
  return compare_values(std::move(name), actual, limited);
}

GradcheckResult summarize(std::vector<Comparison> comparisons) {
  GradcheckResult result;
  for (const Verdict verdict : {Verdict::failed, Verdict::inconclusive, Verdict::passed}) {
    const Comparison* worst = nullptr;
    for (const Comparison& comparison : comparisons) {
      if (comparison.verdict != verdict) continue;
      if (worst == nullptr || ratio(comparison) > ratio(*worst)) worst = &comparison;
    }
    if (worst == nullptr) continue;
    result.verdict = verdict;
    result.worst = *worst;
    break;
  }
  if (comparisons.empty()) {
    result.worst = {.name = "gradcheck",
                    .verdict = Verdict::inconclusive,
                    .message = "gradcheck: nothing was compared"};
  }
  result.comparisons = std::move(comparisons);
  return result;
}

}  // namespace tape8
