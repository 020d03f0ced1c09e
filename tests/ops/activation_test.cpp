#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/activation.hpp>

#include "support/activation_reference.hpp"
#include "support/expect.hpp"
#include "support/float_table.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::check_throws;
using test::Ran;
using test::run;
using test::Values;
using test::values_of;

const std::vector<ActivationType> kTypes{linear,
                                         gelu,
                                         silu,
                                         sigmoid,
                                         relu,
                                         squared_relu,
                                         quick_gelu,
                                         geglu,
                                         glu,
                                         swiglu,
                                         reglu,
                                         qgeglu,
                                         sreglu,
                                         clamped_swiglu,
                                         Act::clamped_silu,
                                         Act::clamped_linear,
                                         {Act::gelu, Act::sigmoid, Act::linear},
                                         {Act::silu, Act::relu, Act::quick_gelu, Act::linear}};

/// Inputs over the bends of every function, moved off the kinks, where a slope is a matter of
/// choice.
Values inputs(std::int64_t count, std::uint64_t seed) {
  Values values = test::random_values(count, seed, -9.0, 9.0);
  for (double& value : values) {
    for (const double kink : {-7.0, 0.0, 7.0}) {
      if (std::fabs(value - kink) < 0.05) value += 0.11;
    }
  }
  return values;
}

Ran run_activation(const Tensor& x, const ActivationType& type, const Quantizer& quantizer = {},
                   const ActivationParams& params = {}) {
  return run({x}, [&](const std::vector<Variable>& in) {
    return activation(in[0], type, quantizer, params);
  });
}

TEST_CASE("activation: every type, values and gradient, odd sizes, against float64") {
  for (const ActivationType& type : kTypes) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Shape& size : {Shape{1, 1}, Shape{3, 1}, Shape{5, 17}, Shape{1, 767}}) {
        const std::int64_t rows = size[0];
        const std::int64_t cols = size[1];
        CAPTURE(to_string(type));
        CAPTURE(to_string(dtype));
        CAPTURE(rows);
        CAPTURE(cols);
        const std::int64_t width = cols * type.count();
        const Tensor x = Tensor::from(inputs(rows * width, 3), {rows, width}, dtype);
        const Ran ran = run_activation(x, type);
        CHECK(ran.y.shape() == Shape{rows, cols});
        CHECK(ran.y.dtype() == dtype);
        check_close(ran.y, test::activation(type, {}, values_of(x), rows, cols));
        CHECK(ran.gradients[0].dtype() == dtype);
        check_close(ran.gradients[0], test::activation_gradient(type, {}, values_of(x),
                                                                values_of(ran.dy), rows, cols));
      }
    }
  }
}

TEST_CASE("activation: small magnitudes keep their relative precision") {
  // Relative to each value, not to the largest: cancellation near zero or in the tails would show.
  for (const ActivationType& type : {gelu, silu, sigmoid, quick_gelu, squared_relu}) {
    CAPTURE(to_string(type));
    const Values magnitudes{1e-30, 1e-10, 1e-6, 1e-3, 0.01, 0.1, 1.0, 3.0};
    Values x;
    for (const double m : magnitudes) {
      x.push_back(m);
      x.push_back(-m);
    }
    const Tensor input = Tensor::from(x, {16, 1}, DType::f32);
    const Values y = values_of(activation(input, type).tensor());
    const Values reference = test::activation(type, {}, values_of(input), 16, 1);
    for (std::size_t i = 0; i < y.size(); ++i) {
      CAPTURE(x[i]);
      CHECK(std::fabs(y[i] - reference[i]) <= 2e-6 * std::fabs(reference[i]) + 1e-45);  // underflow
    }
  }
}

TEST_CASE("activation: worked values") {
  CHECK(activation(Tensor::from({1.0F}, {1}), gelu).tensor().item<double>() ==
        doctest::Approx(0.841192).epsilon(1e-6));
  CHECK(activation(Tensor::from({-90.0F}, {1}), silu).tensor().item<double>() / -7.3746e-38 ==
        doctest::Approx(1).epsilon(1e-4));
  const Values gated =
      values_of(activation(Tensor::from({1.0F, 2.0F, 3.0F, 4.0F}, {4}), swiglu).tensor());
  CHECK(gated[0] == doctest::Approx(2.1932).epsilon(1e-4));
  CHECK(gated[1] == doctest::Approx(7.0464).epsilon(1e-4));
}

TEST_CASE("activation: clamped_swiglu passes the gradient whole at the limit, and none beyond") {
  const auto gradients = [](float a, float b, double& y) {
    const Variable x = parameter(Tensor::from({a, b}, {2}));
    Tape tape;
    const Variable out = activation(x, clamped_swiglu);
    y = out.tensor().item<double>();
    tape.backward(out);
    return values_of(x.grad());
  };
  double y = 0.0;
  const Values beyond = gradients(8.0F, -9.0F, y);
  CHECK(y == doctest::Approx(-41.9997).epsilon(1e-5));
  CHECK(beyond == Values{0.0, 0.0});
  const Values at = gradients(7.0F, 7.0F, y);
  CHECK(y == doctest::Approx(55.9996).epsilon(1e-5));
  CHECK(at[0] == doctest::Approx(8.0006).epsilon(1e-4));
  CHECK(at[1] == doctest::Approx(7.0).epsilon(1e-4));
}

TEST_CASE("activation: the clamp's numbers are options") {
  const ActivationParams params{
      .clamped_swiglu = {.limit = 2.0F, .alpha = 0.7F, .glu_linear_offset = -0.5F}};
  const Tensor x = Tensor::from(inputs(4 * 22, 8), {4, 22}, DType::f32);
  const Ran ran = run_activation(x, clamped_swiglu, {}, params);
  const Values exact = test::activation(clamped_swiglu, params.clamped_swiglu, values_of(x), 4, 11);
  check_close(ran.y, exact);
  check_close(ran.gradients[0], test::activation_gradient(clamped_swiglu, params.clamped_swiglu,
                                                          values_of(x), values_of(ran.dy), 4, 11));
}

TEST_CASE("activation: large inputs saturate to the exact limit, NaN stays NaN") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const ActivationType& type : {gelu, silu, quick_gelu, relu}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(type));
      for (const double large : {200.0, 1000.0, 1e4, 1e10, 1e18, 1e38}) {
        CAPTURE(large);
        const Tensor x = Tensor::from({large, -large}, {2, 1}, dtype);
        const Ran ran = run_activation(x, type);
        const double held = values_of(x)[0];
        CHECK(values_of(ran.y) == Values{held, 0.0});
        const Values dx = values_of(ran.gradients[0]);
        CHECK(dx[0] == values_of(ran.dy)[0]);
        CHECK(dx[1] == 0.0);
      }
    }
    for (const ActivationType& type : kTypes) {
      CAPTURE(to_string(type));
      const Tensor x = Tensor::full({type.count()}, static_cast<double>(kNaN), dtype);
      CHECK(std::isnan(activation(x, type).tensor().item<float>()));
    }
  }
  CHECK(activation(Tensor::from({1e4F}, {1}), sigmoid).tensor().item<float>() == 1.0F);
  CHECK(activation(Tensor::from({-1e4F}, {1}), sigmoid).tensor().item<float>() == 0.0F);
}

TEST_CASE("activation: an axis of size 1 or 2 is no gate axis") {
  const Tensor x = Tensor::from(inputs(2 * 64, 5), {2, 64}, DType::f32);
  CHECK(activation(x, gelu).shape() == Shape{2, 64});
  CHECK(activation(x, swiglu).shape() == Shape{2, 32});
  const Tensor deep = Tensor::from(inputs(3 * 2 * 4, 6), {3, 2, 4}, DType::f32);
  CHECK(activation(deep, swiglu).shape() == Shape{3, 2, 2});
  check_close(activation(deep, swiglu).tensor(),
              test::activation(swiglu, {}, values_of(deep), 6, 2));
}

TEST_CASE("activation: one dimension, several batch dimensions, no elements") {
  for (const Shape& shape :
       {Shape{8}, Shape{2, 3, 5, 8}, Shape{0, 8}, Shape{3, 0}, Shape{2, 0, 8}}) {
    CAPTURE(to_string(shape));
    const Tensor x = Tensor::from(inputs(shape.numel(), 7), shape, DType::f32);
    const Ran ran = run_activation(x, swiglu);
    const std::int64_t cols = shape[-1] / 2;
    CHECK(ran.y.shape() == shape.axes(0, shape.rank() - 1).joined({cols}));
    CHECK(ran.gradients[0].shape() == shape);
    const std::int64_t rows = shape.numel(0, shape.rank() - 1);
    check_close(ran.y, test::activation(swiglu, {}, values_of(x), rows, cols));
  }
}

TEST_CASE("activation: a view gives what its copy gives") {
  const Tensor x = Tensor::from(inputs(12 * 10, 9), {12, 10}, DType::f32);
  for (const Tensor& view : {x.transpose(0, 1), x.slice(1, 2, 8)}) {
    const Ran strided = run_activation(view, swiglu);
    const Ran plain = run_activation(view.clone(), swiglu);
    CHECK(test::bytes_of(strided.y) == test::bytes_of(plain.y));
    CHECK(test::bytes_of(strided.gradients[0]) == test::bytes_of(plain.gradients[0]));
  }
}

TEST_CASE("activation: with a quantizer y is the cast's values, the gradient passes unchanged") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const ActivationType& type : {gelu, swiglu}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(type));
      Quantizer q = make_quantizer(DelayedScaling{.amax_history_len = 2}, TensorRole::x);
      q.set_state(Scale{30.0F}, std::vector<float>{0.0F, 1.0F});
      const std::int64_t width = 33 * type.count();
      const Tensor x = Tensor::from(inputs(4 * width, 4), {4, width}, dtype);
      // The f32 result that is cast, from the same kernel without a quantizer.
      const Values exact = values_of(activation(x.to(DType::f32), type).tensor());
      const Values cast = test::cast_and_decoded(exact, 30.0F, DType::e4m3);
      const Ran ran = run_activation(x, type, q);
      CHECK(ran.y.dtype() == dtype);
      CHECK(values_of(ran.y) == test::rounded(test::rounded(cast, DType::f32), dtype));
      const Ran plain = run_activation(x, type);
      CHECK(test::bytes_of(ran.gradients[0]) == test::bytes_of(plain.gradients[0]));
      // The noted amax is that of the f32 result.
      CHECK(q.amax_history()[1] == static_cast<float>(test::largest_magnitude(exact)));
    }
  }
}

TEST_CASE("activation: refusals") {
  const Tensor x = Tensor::zeros({2, 9});
  check_throws<ShapeError>("activation", [&] { activation(x, swiglu); }, {"9", "swiglu"});
  check_throws<ShapeError>("activation", [&] { activation(Tensor::zeros({}), gelu); });
  CHECK_THROWS_AS(activation(Variable{}, gelu), Error);
  for (const DType dtype : {DType::i32, DType::e4m3, DType::u8}) {
    check_throws<DTypeError>("activation", [&] { activation(Tensor::zeros({2}, dtype), gelu); },
                             {to_string(dtype)});
  }
  const Quantizer q = make_quantizer(DelayedScaling{}, TensorRole::x);
  check_throws<DTypeError>("activation",
                           [&] { activation(Tensor::zeros({2}, DType::f64), gelu, q); }, {"f64"});
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const ClampedSwigluParams& bad :
       {ClampedSwigluParams{.limit = -1.0F}, ClampedSwigluParams{.limit = kNaN},
        ClampedSwigluParams{.alpha = kNaN}, ClampedSwigluParams{.glu_linear_offset = kNaN}}) {
    check_throws<OptionError>("activation", [&] {
      activation(Tensor::zeros({2, 4}), clamped_swiglu, {}, {.clamped_swiglu = bad});
    });
  }
}

}  // namespace
}  // namespace tape8
