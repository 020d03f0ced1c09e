#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>
#include <tape8/gradcheck.hpp>
#include <tape8/ops/activation.hpp>
#include <tape8/ops/arithmetic.hpp>
#include <tape8/ops/cast.hpp>
#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm_dense.hpp>
#include <tape8/ops/matmul.hpp>
#include <tape8/ops/reshape.hpp>
#include <tape8/ops/softmax_cross_entropy.hpp>

#include "support/check_op.hpp"
#include "support/expect.hpp"
#include "support/own_ops.hpp"
#include "support/values.hpp"

namespace tape8::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// x^3 as an op of a user's, in the dtype of x, with a gradient that may be wrong.
template <class Value, class Slope>
Variable own_op(const Variable& x, Value value, Slope slope) {
  struct Saved {
    Tensor x;
    void visit(SavedVisitor& visitor) const { visitor("x", x); }
  };
  Values y = values_of(x.tensor());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = value(y[i], i);
  return record("own_op", {x}, Tensor::from(y, x.shape(), x.dtype()), Saved{x.tensor()},
                [slope](const Saved& saved, Gradients& gradients) {
                  const Values at = values_of(saved.x);
                  Values dx = values_of(gradients.output());
                  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= slope(at[i], i);
                  gradients.set(0, Tensor::from(dx, saved.x.shape(), saved.x.dtype()));
                });
}

double cube(double x, std::size_t) { return x * x * x; }
double cube_slope(double x, std::size_t) { return 3.0 * x * x; }

/// Checks an op made of a value and a slope at random values.
template <class Value, class Slope>
GradcheckResult check_own(Value value, Slope slope, DType dtype = DType::f64) {
  return gradcheck([&](std::span<const Variable> in) { return own_op(in[0], value, slope); },
                   {random_tensor({3, 5}, 7, dtype, 0.25, 2.0)});
}

/// That a check found what is wrong, and says so.
void check_failed(const GradcheckResult& result, const std::string& part) {
  CAPTURE(result.message());
  CHECK(result.verdict == Verdict::failed);
  CHECK_FALSE(result.passed());
  CHECK(result.worst.error > result.worst.tolerance);
  CHECK(result.message().find(part) != std::string::npos);
}

TEST_CASE("gradcheck: right gradients pass in every type, with room to spare") {
  for (const DType dtype : kComputeTypes) {
    CAPTURE(to_string(dtype));
    const GradcheckResult result = check_own(cube, cube_slope, dtype);
    CAPTURE(result.message());
    CHECK(result.passed());
    CHECK(result);
    CHECK(result.comparisons.size() == 2);
    CHECK(result.comparisons[0].name == "output");
    CHECK(result.comparisons[1].name == "gradient of input 0");
    CHECK(result.worst.error <= 0.5 * result.worst.tolerance);
    CHECK(result.differences == DType::f64);
  }
}

TEST_CASE("gradcheck: functions of several ops, inputs that are none, and integers") {
  const Tensor labels = Tensor::from({2, 0, 1, 2}, {4});
  for (const DType dtype : kComputeTypes) {
    CAPTURE(to_string(dtype));
    const GradcheckResult result = gradcheck(
        [](std::span<const Variable> in) {
          const Variable h = layernorm_dense(in[0], in[1], in[2], in[3], in[4]);
          return softmax_cross_entropy(dense(activation(h, swiglu), in[5]), in[6].tensor());
        },
        {random_tensor({4, 24}, 1, dtype), random_tensor({24, 16}, 2, dtype),
         random_tensor({24}, 3, dtype, 0.5, 1.5), Tensor{}, random_tensor({16}, 4, dtype),
         random_tensor({8, 3}, 5, dtype), labels},
        {.names = {"x", "kernel_1", "gamma", "beta", "bias_1", "kernel_2", "labels"}});
    CAPTURE(result.message());
    CHECK(result.passed());
    CHECK(result.comparisons.size() == 1 + 5);
    CHECK(result.comparisons[2].name == "gradient of kernel_1");
  }
}

TEST_CASE("gradcheck: each kind of wrong gradient fails, and the message says which it is") {
  for (const DType dtype : kComputeTypes) {
    CAPTURE(to_string(dtype));
    const auto with = [dtype](auto slope) { return check_own(cube, slope, dtype); };
    check_failed(with([](double x, std::size_t) { return 6.0 * x * x; }),
                 "it is 2 times what it should be");
    check_failed(with([](double x, std::size_t) { return 1.5 * x * x; }),
                 "it is 0.5 times what it should be");
    check_failed(with([](double x, std::size_t) { return -3.0 * x * x; }),
                 "it is -1 times what it should be");
    check_failed(with([](double, std::size_t) { return 0.0; }), "it is zero throughout");
    check_failed(with([](double x, std::size_t) { return 3.0 * x; }), "exceeds");
    const GradcheckResult nan =
        with([](double x, std::size_t i) { return i == 4 ? kNaN : 3.0 * x * x; });
    check_failed(nan, "element 4 is nan, should be ");
    CHECK(nan.worst.element == 4);
    const GradcheckResult one =
        with([](double x, std::size_t i) { return (i == 11 ? 1.9 : 3.0) * x * x; });
    check_failed(one, "gradient of input 0: error");
    CHECK(one.worst.element == 11);
    CHECK(one.worst.value == doctest::Approx(1.9 / 3.0 * one.worst.reference).epsilon(0.02));
  }
}

TEST_CASE("gradcheck: an error far below the magnitudes is found in f64") {
  check_failed(check_own(cube, [](double x, std::size_t) { return 3.0 * x * x + 1e-5; }),
               "exceeds 1.00e-07");
}

TEST_CASE("gradcheck: results that are not what they should be") {
  check_failed(check_own([](double x, std::size_t i) { return i == 2 ? kNaN : x; },
                         [](double, std::size_t) { return 1.0; }),
               "output: element 2 is nan");
  check_failed(check_own([](double x, std::size_t i) { return i == 3 ? x / 0.0 : x; },
                         [](double, std::size_t) { return 1.0; }),
               "output: element 3 is inf");
  // Zeros that do not depend on x, where a gradient says that they do.
  check_failed(check_own([](double, std::size_t) { return 0.0; }, cube_slope),
               "gradient of input 0: error inf");
  // Other values each time.
  double call = 0.0;
  check_failed(check_own([&](double x, std::size_t) { return x + (call += 0.1); },
                         [](double, std::size_t) { return 1.0; }),
               "exceeds");
}

TEST_CASE("gradcheck: a result that float64 does not give, with the right slope") {
  const auto check = [](double off) {
    return gradcheck(
        [off](std::span<const Variable> in) {
          const double added = in[0].dtype() == DType::f32 ? off : 0.0;
          return own_op(
              in[0], [added](double x, std::size_t) { return x + added; },
              [](double, std::size_t) { return 1.0; });
        },
        {random_tensor({3, 5}, 7)});
  };
  CHECK(check(0.0).passed());
  check_failed(check(1e-3), "output: error");
}

TEST_CASE("gradcheck: a backward that takes no notice of the cotangent") {
  const auto check = [](bool ignores) {
    return gradcheck(
        [ignores](std::span<const Variable> in) {
          return record("doubled", {in[0]}, (in[0] * 2.0).tensor(), NothingSaved{},
                        [ignores](const NothingSaved&, Gradients& gradients) {
                          Values dx = values_of(gradients.output());
                          for (double& value : dx) value = 2.0 * (ignores ? 1.0 : value);
                          const Tensor& dy = gradients.output();
                          gradients.set(0, Tensor::from(dx, dy.shape(), dy.dtype()));
                        });
        },
        {random_tensor({3, 5}, 7)});
  };
  CHECK(check(false).passed());
  check_failed(check(true), "gradient of input 0: error");
}

TEST_CASE("gradcheck: a function that is not on the tape") {
  const GradcheckResult result = gradcheck(
      [](std::span<const Variable> in) {
        return Variable{Tensor::from(values_of(in[0].tensor()), in[0].shape(), in[0].dtype())};
      },
      {random_tensor({3}, 1)});
  check_failed(result, "gradient of input 0: error 1.00e+00 exceeds 1.00e-05");
  check_failed(result, "no gradient arrived");
}

TEST_CASE("gradcheck: what could not have failed is inconclusive, not passed") {
  const auto check_inconclusive = [](const GradcheckResult& result, const std::string& part) {
    CAPTURE(result.message());
    CHECK(result.verdict == Verdict::inconclusive);
    CHECK_FALSE(result.passed());
    CHECK(result.message().find(part) != std::string::npos);
  };
  const Tensor x = random_tensor({4}, 1, DType::f32, 0.5, 1.0);
  check_inconclusive(gradcheck([](std::span<const Variable> in) { return in[0] * 1.0; },
                               {x, random_tensor({2}, 2)}),
                     "gradient of input 1: all of it and of the reference is zero");
  check_inconclusive(
      gradcheck([](std::span<const Variable> in) { return activation(in[0] * -1.0, relu); }, {x}),
      "zero");
  // 10 (x / 10) - x is zero but for its rounding, which differences magnify.
  check_inconclusive(
      gradcheck([](std::span<const Variable> in) { return in[0] * 0.1 * 10.0 - in[0] + in[1]; },
                {random_tensor({64}, 1, DType::f64), random_tensor({64}, 2, DType::f64)}),
      "gradient of input 0: all of it and of the reference is zero");
  // A norm of one value is constant but for epsilon and rounding.
  check_inconclusive(
      gradcheck(
          [](std::span<const Variable> in) { return layernorm_dense(in[0], in[1], in[2], in[3]); },
          {random_tensor({5, 1}, 1), random_tensor({1, 2}, 2), random_tensor({1}, 3),
           random_tensor({1}, 4)}),
      "zero");
  check_inconclusive(
      check_against([](std::span<const Variable> in) { return in[0] * 1.0; }, {x},
                    [](const Tensor&) { return ExpectedResults{.gradients = {{}}}; }),
      "nothing was compared");
}

TEST_CASE("gradcheck: an op of f32 alone is checked by differences in f32") {
  const auto check = [](float wrong) {
    return gradcheck(
        [wrong](std::span<const Variable> in) {
          const Variable y = multiply(in[0], in[1]);
          return wrong == 1.0F ? y : multiply(scaled(y, wrong), Tensor::full({6}, 1.0 / wrong));
        },
        {random_tensor({6}, 1), random_tensor({6}, 2)});
  };
  const GradcheckResult right = check(1.0F);
  CAPTURE(right.message());
  CHECK(right.passed());
  CHECK(right.differences == DType::f32);
  CHECK(right.worst.tolerance == 1e-3);

  struct Saved {
    Tensor x;
    void visit(SavedVisitor& visitor) const { visitor("x", x); }
  };
  const auto square = [](const Variable& x, float factor) {
    return record("square", {x},
                  map(x.tensor(), x.tensor(), [](float a, float b) { return a * b; }),
                  Saved{x.tensor()}, [factor](const Saved& saved, Gradients& gradients) {
                    gradients.set(0, map(saved.x, gradients.output(),
                                         [factor](float a, float dy) { return factor * a * dy; }));
                  });
  };
  for (const float factor : {2.0F, 2.01F, 4.0F}) {
    CAPTURE(factor);
    const GradcheckResult result =
        gradcheck([&](std::span<const Variable> in) { return square(in[0], factor); },
                  {random_tensor({6}, 1)});
    CHECK(result.passed() == (factor == 2.0F));
  }
  // Types that no difference can be taken in.
  check_throws<DTypeError>(
      "gradcheck",
      [] {
        (void)gradcheck([](std::span<const Variable> in) { return cast(in[0], DType::bf16); },
                        {random_tensor({6}, 1)});
      },
      {"f32", "bf16"});
}

TEST_CASE("gradcheck: a sample of large inputs, another with each seed") {
  const Tensor x = random_tensor({40, 50}, 1, DType::f64, 0.5, 1.0);
  std::vector<bool> moved(2000);
  const auto function = [&](std::span<const Variable> in) {
    const Values now = values_of(in[0].tensor());
    const Values before = values_of(x);
    for (std::size_t i = 0; i < now.size(); ++i) moved[i] = moved[i] || now[i] != before[i];
    return own_op(in[0], cube, cube_slope);
  };
  const auto moved_by = [&](const GradcheckOptions& options) {
    moved.assign(2000, false);
    CHECK(gradcheck(function, {x}, options).passed());
    return moved;
  };
  const std::vector<bool> first = moved_by({});
  CHECK(std::count(first.begin(), first.end(), true) == 64);
  CHECK(moved_by({}) == first);
  CHECK(moved_by({.seed = 2}) != first);
  const std::vector<bool> all = moved_by({.max_elements = 3000});
  CHECK(std::count(all.begin(), all.end(), true) == 2000);
}

TEST_CASE("gradcheck: magnitudes of inputs, and steps") {
  for (const double magnitude : {1e-6, 1.0, 1e6}) {
    CAPTURE(magnitude);
    const Tensor x = random_tensor({8}, 3, DType::f64, 0.5 * magnitude, magnitude);
    const auto function = [](std::span<const Variable> in) {
      return own_op(in[0], cube, cube_slope);
    };
    CHECK(gradcheck(function, {x}).passed());
    // A tenth of the value is no small step for a cube.
    CHECK_FALSE(gradcheck(function, {x}, {.step = 0.1}).passed());
    CHECK(gradcheck(function, {x}, {.tolerance = 0.02, .step = 0.1}).passed());
  }
  const GradcheckResult zeros =
      gradcheck([](std::span<const Variable> in) { return in[0] + in[1]; },
                {Tensor::zeros({3}, DType::f64), Tensor::full({3}, 1.0, DType::f64)});
  CHECK(zeros.passed());
}

TEST_CASE("gradcheck: leaves inputs and tapes as they were") {
  const Tensor x = random_tensor({3, 3}, 1, DType::f64);
  const Values before = values_of(x);
  Tape tape;
  const Variable w = parameter(Tensor::full({2}, 3.0));
  const Variable y = w * 2.0;
  CHECK(gradcheck([](std::span<const Variable> in) { return matmul(in[0], in[0]); }, {x}).passed());
  CHECK(values_of(x) == before);
  CHECK(tape.size() == 1);
  tape.backward(y, Tensor::full({2}, 1.0));
  CHECK(values_of(w.grad()) == Values{2.0, 2.0});
}

TEST_CASE("gradcheck: options out of range") {
  const Tensor x = random_tensor({2}, 1);
  const auto function = [](std::span<const Variable> in) { return in[0] * 2.0; };
  const auto refused = [&](const GradcheckOptions& options, std::string_view part) {
    check_throws<OptionError>("gradcheck", [&] { (void)gradcheck(function, {x}, options); },
                              {part});
  };
  for (const double tolerance : {-1e-3, kMaxGradcheckTolerance, 2.0, kNaN}) {
    refused({.tolerance = tolerance}, "tolerance must be above 0 and below 0.5");
  }
  for (const double step : {-1.0, kNaN}) refused({.step = step}, "step must be finite");
  refused({.max_elements = 0}, "max_elements must be at least 1: got 0");
  refused({.names = {"x", "y"}}, "names must be none or one for each of 1 inputs: got 2");
  check_throws<OptionError>("gradcheck_tolerance", [] { (void)gradcheck_tolerance(DType::i32); });
  check_throws<OptionError>("gradcheck_tolerance",
                            [] { (void)gradcheck_tolerance(DType::f32, 0); });
}

TEST_CASE("gradcheck: tolerances are finer than a wrong term, and no finer than the type") {
  CHECK(gradcheck_tolerance(DType::f64) == 1e-7);
  CHECK(gradcheck_tolerance(DType::f32) == 1e-5);
  CHECK(gradcheck_tolerance(DType::bf16) == doctest::Approx(0x1p-8).epsilon(0.01));
  CHECK(gradcheck_tolerance(DType::f16) == doctest::Approx(0x1p-11).epsilon(0.03));
  CHECK(gradcheck_tolerance(DType::bf16, 3) == doctest::Approx(3 * 0x1p-8).epsilon(0.01));
  for (const DType dtype : kComputeTypes) {
    // What rounding to the type does is within it, whatever the values.
    const Values values = random_values(20000, 5, -1.0, 1.0);
    const Tensor rounded = Tensor::from(values, {20000}, dtype);
    CHECK(relative_error(values_of(rounded), values) <= gradcheck_tolerance(dtype));
  }
}

TEST_CASE("gradcheck: what has no elements, or nothing to differ from, shows nothing") {
  const auto twice = [](std::span<const Variable> in) { return scale(in[0], 2.0); };
  CHECK(gradcheck(twice, {Tensor::zeros({0, 5})}).verdict == Verdict::inconclusive);
  CHECK(compare("t", Tensor{}, {}).verdict == Verdict::inconclusive);
  CHECK(compare("t", Tensor::zeros({0}), {}).verdict == Verdict::inconclusive);
  CHECK(compare("t", Tensor::full({3}, 1.0), {}).verdict == Verdict::inconclusive);
  const auto constant = [](std::span<const Variable>) {
    return Variable{Tensor::full({2}, 1.0, DType::f64)};
  };
  CHECK(gradcheck(constant, {}).verdict == Verdict::inconclusive);
}

TEST_CASE("gradcheck: arguments that make no check are refused") {
  const std::vector<Tensor> inputs{Tensor::full({3}, 1.0)};
  const auto twice = [](std::span<const Variable> in) { return scale(in[0], 2.0); };
  const auto nothing = [](const Tensor&) { return ExpectedResults{}; };
  CHECK_THROWS_AS((void)gradcheck({}, inputs), OptionError);
  CHECK_THROWS_AS((void)check_against({}, inputs, nothing), OptionError);
  CHECK_THROWS_AS((void)check_against(twice, inputs, {}), OptionError);
  CHECK_THROWS_AS((void)check_against(twice, inputs, nothing), OptionError);
  CHECK_THROWS_AS((void)gradcheck(twice, inputs, {.step = 1e-20}), OptionError);
  CHECK_THROWS_AS((void)compare("t", inputs[0], {.values = {1.0, 1.0, 1.0}, .unquantized = {2.0}}),
                  OptionError);
}

}  // namespace
}  // namespace tape8::test
