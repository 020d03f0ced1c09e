#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/dtype.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {

// Checks of gradients for functions and ops of one's own; docs/gradcheck.md has an example and the
// reasons for the tolerances. A tensor's error is max |value - reference| / max |reference|.

/// What is checked: a function of one variable for each input, none for an input that is none. It
/// gives the same result whenever it is called with the same values.
using CheckedFunction = std::function<Variable(std::span<const Variable> inputs)>;

enum class Verdict {
  passed,
  failed,
  inconclusive,  ///< it could not have failed: nothing was shown
};

TAPE8_API std::string_view to_string(Verdict verdict);

/// What a tensor should be.
struct Expected {
  std::vector<double> values = {};  ///< row-major; none: the tensor is not compared
  double tolerance = 0.0;           ///< of its error; 0: gradcheck_tolerance() of its dtype
  /// The values if nothing were quantized; none: not known. Those that are within the tolerance of
  /// `values` make the comparison inconclusive, as FP8 that ran in high precision would pass.
  std::vector<double> unquantized = {};
};

/// How a tensor compares with what it should be.
struct Comparison {
  std::string name;  ///< "output", "gradient of input 0"
  Verdict verdict = Verdict::passed;
  double error = 0.0;  ///< Inf for values that are not finite or not there
  double tolerance = 0.0;
  std::int64_t element = -1;  ///< where the largest difference is, row-major; -1: nowhere
  double value = 0.0;         ///< what is there: for gradients the analytic one
  double reference = 0.0;     ///< what should be there: for gradients the numeric one
  std::string message;        ///< one line that says what is wrong, or how near it is
};

/// The comparisons of a check, the output's first and then one for each gradient.
struct GradcheckResult {
  Verdict verdict = Verdict::inconclusive;  ///< failed if one is, else inconclusive if one is
  Comparison worst;                         ///< the one that decided, or came nearest to failing
  std::vector<Comparison> comparisons;
  DType differences = DType::f64;  ///< gradcheck(): the type that they were taken in

  bool passed() const { return verdict == Verdict::passed; }
  explicit operator bool() const { return passed(); }
  const std::string& message() const { return worst.message; }
};

/// The most that a right result in `dtype` is off. f64: 1e-7, what central differences reach; f32:
/// 1e-5, sums of some hundred products; bf16 and f16: that and `roundings` times half a unit in the
/// last place, 2^-8 and 2^-11, for a result that was rounded that often on its way. Throws
/// OptionError for other types, or less than 1 rounding.
TAPE8_API double gradcheck_tolerance(DType dtype, int roundings = 1);

/// Tolerances lie below this, so that zeros, or twice or half of what is right, fail.
inline constexpr double kMaxGradcheckTolerance = 0.5;

struct GradcheckOptions {
  std::uint64_t seed = 1;  ///< of the cotangent, and of the elements that are looked at
  /// 0: gradcheck_tolerance() of the coarsest dtype among result and inputs, with 4 roundings;
  /// 1e-3 for differences in f32.
  double tolerance = 0.0;
  /// Of the differences, relative to an element's magnitude or to the mean one of its tensor. 0:
  /// 1e-5 for f64, 5e-3 for f32, where errors of truncation and of rounding are about equal.
  double step = 0.0;
  /// Elements of each input that are looked at: all of them, or so many at random.
  std::int64_t max_elements = 64;
  std::vector<std::string> names = {};  ///< of the inputs, for messages
};

/// The gradients of every input, by the tape from a random cotangent, against central differences
/// of the function; and its result against the one that the differences start from.
///
/// Differences are taken in f64, with f64 copies of the inputs, if the function then gives f64, as
/// it does when it is made of tape8's ops; else in f32. Inputs of integers are passed on as they
/// are; so are those that are none. For functions that quantize use check_against(). Throws
/// OptionError for options out of range, and what the function throws.
TAPE8_API GradcheckResult gradcheck(const CheckedFunction& function,
                                    const std::vector<Tensor>& inputs,
                                    const GradcheckOptions& options = {});

/// What a function's output, and the gradient of each of its inputs, should be.
struct ExpectedResults {
  Expected output;
  std::vector<Expected> gradients;  ///< one an input; without values where there is none
};

/// Computes them in float64 for the cotangent `dy`. It is called between forward and backward, when
/// clones of the function's quantizers cast as those do: the same operands for both sides.
using Reference = std::function<ExpectedResults(const Tensor& dy)>;

struct CheckAgainstOptions {
  std::uint64_t seed = 1;               ///< of the cotangent
  std::vector<std::string> names = {};  ///< of the inputs, for messages
};

/// A function's result and gradients, from a random cotangent, against a reference: for functions
/// that quantize. Throws OptionError for tolerances out of range, and what either function throws.
TAPE8_API GradcheckResult check_against(const CheckedFunction& function,
                                        const std::vector<Tensor>& inputs,
                                        const Reference& reference,
                                        const CheckAgainstOptions& options = {});

/// One tensor against what it should be; one that is none is taken for zeros. Without values on
/// either side it is inconclusive.
TAPE8_API Comparison compare(std::string name, const Tensor& tensor, const Expected& expected);

}  // namespace tape8
