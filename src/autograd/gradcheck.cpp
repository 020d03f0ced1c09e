#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/core/rng.hpp>
#include <tape8/gradcheck.hpp>

#include "autograd/gradcheck_compare.hpp"
#include "core/fail.hpp"

namespace tape8 {
namespace {

constexpr int kDefaultRoundings = 4;
/// Differences of f32 values, about 1e-7 off, over a step of 5e-3, and sums of them.
constexpr double kF32DifferencesTolerance = 1e-3;
constexpr double kF64Step = 1e-5;
constexpr double kF32Step = 5e-3;
/// Slopes below so many times their rounding are zero as far as anybody can tell.
constexpr double kNoiseMargin = 8.0;

bool takes_gradient(const Tensor& input) { return input.defined() && is_compute(input.dtype()); }

template <class Function>
void check_callable(const char* what, const Function& function) {
  if (!function) fail<OptionError>("gradcheck: {} must be given: got none", what);
}

void check_names(const std::vector<std::string>& names, const std::vector<Tensor>& inputs) {
  if (!names.empty() && names.size() != inputs.size()) {
    fail<OptionError>("gradcheck: names must be none or one for each of {} inputs: got {}",
                      inputs.size(), names.size());
  }
}

std::string gradient_name(const std::vector<std::string>& names, std::size_t input) {
  return names.empty() ? fmt::format("gradient of input {}", input)
                       : fmt::format("gradient of {}", names[input]);
}

/// Magnitudes from 0.5 to 1.5 and random signs: a scalar's is not near zero either.
Tensor random_cotangent(const Tensor& y, Rng rng) {
  std::vector<double> values(static_cast<std::size_t>(y.numel()));
  for (double& value : values) {
    const std::uint64_t bits = rng.next();
    value = 0.5 + static_cast<double>(bits >> 11) * 0x1p-53;
    if ((bits & 1) != 0) value = -value;
  }
  Tensor dy = Tensor::empty(y.shape(), y.dtype(), y.device());
  dy.copy_from(Tensor::from(values, y.shape()));
  return dy;
}

/// A function's result, and its gradients by the tape.
struct Differentiated {
  Tensor y, dy;
  std::vector<Tensor> gradients;  // one an input; none where none arrived
};

Differentiated differentiate(const CheckedFunction& function, const std::vector<Tensor>& inputs,
                             std::uint64_t seed,
                             const std::function<void(const Tensor& dy)>& before_backward) {
  std::vector<Variable> variables;
  for (const Tensor& input : inputs) {
    variables.push_back(takes_gradient(input) ? parameter(input)
                        : input.defined()     ? Variable{input}
                                              : Variable{});
  }
  Differentiated result;
  Tape tape;
  const Variable y = function(variables);
  result.y = y.tensor();
  result.dy = random_cotangent(result.y, Rng{seed});
  {
    const RecordingPause pause;
    before_backward(result.dy);
  }
  if (y.requires_grad()) tape.backward(y, result.dy);
  for (const Variable& variable : variables) {
    result.gradients.push_back(variable ? variable.grad() : Tensor{});
  }
  return result;
}

/// The function at copies of the inputs in another type, where they can be moved.
class CopiedFunction {
 public:
  CopiedFunction(const CheckedFunction& function, const std::vector<Tensor>& inputs, DType dtype)
      : function_(function), inputs_(inputs), dtype_(dtype) {
    for (Tensor& input : inputs_) {
      if (takes_gradient(input)) input = input.to(dtype).clone();
    }
  }

  /// Throws DTypeError unless the result is of that type too.
  std::vector<double> operator()() const {
    std::vector<Variable> variables;
    for (const Tensor& input : inputs_) {
      variables.push_back(input.defined() ? Variable{input} : Variable{});
    }
    const RecordingPause pause;
    const Tensor y = function_(variables).tensor();
    if (y.dtype() != dtype_) {
      fail<DTypeError>("gradcheck: the function must give {} for inputs in {}: got {}",
                       to_string(dtype_), to_string(dtype_), to_string(y.dtype()));
    }
    return y.to_vector<double>();
  }

  DType dtype() const { return dtype_; }
  std::vector<double> values(std::size_t input) const { return inputs_[input].to_vector<double>(); }

  /// The function with one element moved, and where exactly it was moved to.
  std::vector<double> at(std::size_t input, std::int64_t element, double& value) {
    Tensor moved = inputs_[input].reshape({-1}).slice(0, element, element + 1);
    const auto before = moved.item<double>();
    moved.fill(value);
    value = moved.item<double>();
    std::vector<double> y = (*this)();
    moved.fill(before);
    return y;
  }

 private:
  const CheckedFunction& function_;
  std::vector<Tensor> inputs_;
  DType dtype_;
};

/// Where the differences start, in the finest type that the function takes.
struct Origin {
  CopiedFunction function;
  std::vector<double> y;
};

Origin find_origin(const CheckedFunction& function, const std::vector<Tensor>& inputs) {
  try {
    const CopiedFunction copied(function, inputs, DType::f64);
    std::vector<double> y = copied();
    return {copied, std::move(y)};
  } catch (const DTypeError&) {
    const CopiedFunction copied(function, inputs, DType::f32);
    std::vector<double> y = copied();
    return {copied, std::move(y)};
  }
}

/// A slope by a central difference, and how far rounding may put it off.
struct Slope {
  double value = 0.0;
  double noise = 0.0;
};

Slope slope(CopiedFunction& function, std::size_t input, std::int64_t element, double at,
            double step, const std::vector<double>& dy) {
  double above = at + step;
  double below = at - step;
  const std::vector<double> y_above = function.at(input, element, above);
  const std::vector<double> y_below = function.at(input, element, below);
  const double ulp = function.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                    : double{std::numeric_limits<float>::epsilon()};
  Slope result;
  // What does not move cancels before the sum.
  for (std::size_t i = 0; i < dy.size(); ++i) {
    if (y_above[i] == y_below[i]) continue;
    result.value += dy[i] * (y_above[i] - y_below[i]);
    result.noise += ulp * std::abs(dy[i] * y_above[i]);
  }
  if (above == below) {
    fail<OptionError>("gradcheck: step must not vanish beside an element of {}: got {}", at, step);
  }
  result.value /= above - below;
  result.noise /= above - below;
  return result;
}

/// All elements of a tensor, or `most` of them at random.
std::vector<std::int64_t> sample(std::int64_t count, std::int64_t most, Rng& rng) {
  std::vector<std::int64_t> elements = rng.permutation(count).to_vector<std::int64_t>();
  elements.resize(static_cast<std::size_t>(std::min(count, most)));
  std::sort(elements.begin(), elements.end());
  return elements;
}

double mean_magnitude(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += std::abs(value);
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

Comparison check_gradient(CopiedFunction& function, std::size_t input, const Tensor& gradient,
                          const std::vector<double>& dy, const GradcheckOptions& options,
                          double tolerance, Rng& rng) {
  const std::vector<double> at = function.values(input);
  const std::vector<double> analytic =
      gradient.defined() ? gradient.to_vector<double>() : std::vector<double>(at.size());
  const double mean = mean_magnitude(at);
  const double step = options.step > 0.0               ? options.step
                      : function.dtype() == DType::f64 ? kF64Step
                                                       : kF32Step;

  ComparedValues actual{
      .values = {},
      .elements = sample(static_cast<std::int64_t>(at.size()), options.max_elements, rng),
      .arrived = gradient.defined()};
  Expected expected{.tolerance = tolerance};
  double noise = 0.0;
  for (const std::int64_t element : actual.elements) {
    const auto index = static_cast<std::size_t>(element);
    const double magnitude = std::max(std::abs(at[index]), mean);
    const Slope numeric =
        slope(function, input, element, at[index], magnitude > 0.0 ? step * magnitude : step, dy);
    actual.values.push_back(analytic[index]);
    expected.values.push_back(numeric.value);
    noise = std::max(noise, kNoiseMargin * numeric.noise);
  }
  if (largest_magnitude(expected.values) <= noise) {
    for (std::vector<double>* values : {&actual.values, &expected.values}) {
      for (double& value : *values) value = std::abs(value) <= noise ? 0.0 : value;
    }
  }
  return compare_values(gradient_name(options.names, input), actual, expected);
}

double default_tolerance(const Tensor& y, const std::vector<Tensor>& inputs, DType differences) {
  double tolerance = gradcheck_tolerance(y.dtype(), kDefaultRoundings);
  for (const Tensor& input : inputs) {
    if (!takes_gradient(input)) continue;
    tolerance = std::max(tolerance, gradcheck_tolerance(input.dtype(), kDefaultRoundings));
  }
  return differences == DType::f64 ? tolerance : std::max(tolerance, kF32DifferencesTolerance);
}

void check_options(const GradcheckOptions& options, const std::vector<Tensor>& inputs) {
  if (options.tolerance != 0.0) check_tolerance(options.tolerance);
  if (!(options.step >= 0.0) || !std::isfinite(options.step)) {
    fail<OptionError>("gradcheck: step must be finite and at least 0: got {}", options.step);
  }
  if (options.max_elements < 1) {
    fail<OptionError>("gradcheck: max_elements must be at least 1: got {}", options.max_elements);
  }
  check_names(options.names, inputs);
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::failed:
      return "failed";
    case Verdict::inconclusive:
      return "inconclusive";
  }
  return "";
}

double gradcheck_tolerance(DType dtype, int roundings) {
  if (roundings < 1) {
    fail<OptionError>("gradcheck_tolerance: roundings must be at least 1: got {}", roundings);
  }
  constexpr double kF64 = 1e-7;
  constexpr double kF32 = 1e-5;
  if (dtype == DType::f64) return kF64;
  if (dtype == DType::f32) return kF32;
  if (dtype == DType::bf16) return kF32 + roundings * 0x1p-8;
  if (dtype == DType::f16) return kF32 + roundings * 0x1p-11;
  fail<OptionError>("gradcheck_tolerance: dtype must be f64, f32, bf16 or f16: got {}",
                    to_string(dtype));
}

GradcheckResult gradcheck(const CheckedFunction& function, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  check_callable("function", function);
  check_options(options, inputs);
  const Differentiated analytic =
      differentiate(function, inputs, options.seed, [](const Tensor&) {});
  Origin origin = find_origin(function, inputs);
  const double tolerance = options.tolerance > 0.0
                               ? options.tolerance
                               : default_tolerance(analytic.y, inputs, origin.function.dtype());

  std::vector<Comparison> comparisons{compare_values("output",
                                                     {.values = analytic.y.to_vector<double>()},
                                                     {.values = origin.y, .tolerance = tolerance})};
  const std::vector<double> dy = analytic.dy.to_vector<double>();
  Rng rng{~options.seed};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!takes_gradient(inputs[i])) continue;
    comparisons.push_back(
        check_gradient(origin.function, i, analytic.gradients[i], dy, options, tolerance, rng));
  }
  if (comparisons.size() == 1) {
    comparisons.push_back({.name = "gradients",
                           .verdict = Verdict::inconclusive,
                           .tolerance = tolerance,
                           .message = "gradients: no input takes one, which shows nothing"});
  }
  GradcheckResult result = summarize(std::move(comparisons));
  result.differences = origin.function.dtype();
  return result;
}

GradcheckResult check_against(const CheckedFunction& function, const std::vector<Tensor>& inputs,
                              const Reference& reference, const CheckAgainstOptions& options) {
  check_callable("function", function);
  check_callable("reference", reference);
  check_names(options.names, inputs);
  ExpectedResults expected;
  const Differentiated actual = differentiate(function, inputs, options.seed,
                                              [&](const Tensor& dy) { expected = reference(dy); });
  if (expected.gradients.size() != inputs.size()) {
    fail<OptionError>(
        "check_against: the reference must have a gradient for each of {} inputs: got {}",
        inputs.size(), expected.gradients.size());
  }
  std::vector<Comparison> comparisons;
  if (!expected.output.values.empty()) {
    comparisons.push_back(compare("output", actual.y, expected.output));
  }
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    if (expected.gradients[i].values.empty()) continue;
    comparisons.push_back(
        compare(gradient_name(options.names, i), actual.gradients[i], expected.gradients[i]));
  }
  return summarize(std::move(comparisons));
}

}  // namespace tape8
