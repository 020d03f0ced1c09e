#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tape8/gradcheck.hpp>

namespace tape8 {

/// What is compared: a tensor's values, or some of them.
struct ComparedValues {
  std::vector<double> values;
  std::vector<std::int64_t> elements = {};  ///< their places in the tensor; none: it is whole
  bool arrived = true;                      ///< false: there is no tensor, zeros stand for it
};

double largest_magnitude(const std::vector<double>& values);

/// Throws OptionError unless 0 < tolerance < kMaxGradcheckTolerance.
void check_tolerance(double tolerance);

/// `expected` has values, and a tolerance that is in range.
Comparison compare_values(std::string name, const ComparedValues& actual, const Expected& expected);

GradcheckResult summarize(std::vector<Comparison> comparisons);

}  // namespace tape8
