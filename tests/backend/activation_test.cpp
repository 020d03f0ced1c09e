#include "backend/kernel_test.hpp"

namespace tape8::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The activations as NUMERICS gives them, in float64; all arguments are of a size that suits the
// formulas.

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double value_of(Act act, double x, const ClampedSwigluParams& p) {
  switch (act) {
    case Act::linear:
      return x;
    case Act::gelu:
      // 0.5 (1 + tanh(u)) without the cancellation.
      return x * logistic(2.0 * std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x));
    case Act::silu:
      return x * logistic(x);
    case Act::sigmoid:
      return logistic(x);
    case Act::relu:
      return x > 0 ? x : 0;
    case Act::squared_relu:
      return x > 0 ? x * x : 0;
    case Act::quick_gelu:
      return x * logistic(1.702 * x);
    case Act::clamped_silu: {
      const double c = std::min(x, double{p.limit});
      return c * logistic(double{p.alpha} * c);
    }
    case Act::clamped_linear:
      return std::min(std::max(x, -double{p.limit}), double{p.limit}) + double{p.glu_linear_offset};
  }
  return 0;
}

/// Central differences for the smooth ones, which are checked to 1e-7 by that; the rest by its
/// rule.
double slope_of(Act act, double x, const ClampedSwigluParams& p) {
  if (act == Act::relu) return x > 0 ? 1 : 0;
  if (act == Act::clamped_linear) return std::abs(x) <= double{p.limit} ? 1 : 0;
  if (act == Act::clamped_silu && x > double{p.limit}) return 0;
  if (act == Act::squared_relu) return x > 0 ? 2 * x : 0;
  ClampedSwigluParams unclamped = p;
  unclamped.limit = 1e30F;  // at the limit the slope is that from below
  const double h = 1e-5;
  const double f1 = value_of(act, x + h, unclamped) - value_of(act, x - h, unclamped);
  const double f2 = value_of(act, x + 2 * h, unclamped) - value_of(act, x - 2 * h, unclamped);
  return (8 * f1 - f2) / (12 * h);
}

constexpr Act kActs[] = {Act::linear,     Act::gelu,         Act::silu,
                         Act::sigmoid,    Act::relu,         Act::squared_relu,
                         Act::quick_gelu, Act::clamped_silu, Act::clamped_linear};

std::vector<ActivationType> all_types() {
  std::vector<ActivationType> types(std::begin(kActs), std::end(kActs));
  for (const auto& pair : {geglu, glu, swiglu, reglu, qgeglu, sreglu, clamped_swiglu}) {
    types.push_back(pair);
  }
  types.push_back({Act::silu, Act::linear, Act::sigmoid});
  return types;
}

struct Case {
  ActivationType type = Act::linear;
  DType dtype;
  std::int64_t rows, cols;
  ActivationParams params = {};
};

void check(const Case& test) {
  CAPTURE(to_string(test.type));
  CAPTURE(to_string(test.dtype));
  CAPTURE(test.cols);
  const ActivationType& type = test.type;
  const ActivationParams& params = test.params;
  const DType dtype = test.dtype;
  const std::int64_t rows = test.rows, cols = test.cols;
  const auto& p = params.clamped_swiglu;
  const auto parts = type.parts();
  const std::int64_t n = type.count();
  const DType stat = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Memory x(dtype, random_values(rows * cols * n, 21, 3.0));
  const Memory dy(dtype, random_values(rows * cols, 22));

  std::vector<double> y_ref, dx_ref(static_cast<std::size_t>(rows * cols * n)),
      dbias_ref(static_cast<std::size_t>(cols * n));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      double product = 1.0;
      for (std::int64_t i = 0; i < n; ++i) {
        product *= value_of(parts[static_cast<std::size_t>(i)].act(), x[(r * n + i) * cols + c], p);
        double slope = dy[r * cols + c];
        for (std::int64_t j = 0; j < n; ++j) {
          const double at = x[(r * n + j) * cols + c];
          const Act act = parts[static_cast<std::size_t>(j)].act();
          slope *= i == j ? slope_of(act, at, p) : value_of(act, at, p);
        }
        dx_ref[static_cast<std::size_t>((r * n + i) * cols + c)] = slope;
        dbias_ref[static_cast<std::size_t>(i * cols + c)] += slope;
      }
      y_ref.push_back(product);
    }
  }

  const auto results = same_everywhere([&](Backend& backend) {
    Memory y(dtype, rows * cols), dx(dtype, rows * cols * n), dx_again = dx;
    Memory dbias(stat, cols * n);
    Amax amax, dx_amax;
    backend.activation({.type = type,
                        .params = params,
                        .rows = rows,
                        .cols = cols,
                        .x = x.input(),
                        .y = y.output(&amax)});
    ActivationBackwardArgs backward{.type = type,
                                    .params = params,
                                    .rows = rows,
                                    .cols = cols,
                                    .dy = dy.input(),
                                    .x = x.input(),
                                    .dx = dx.output(&dx_amax)};
    backend.activation_backward(backward);
    backward.dbias = dbias.data();
    backward.dx = dx_again.output();
    backend.activation_backward(backward);
    CHECK(dx == dx_again);
    return std::vector{y, dx, dbias, amax_memory(amax), amax_memory(dx_amax)};
  });
  // The reference's differences are good to 1e-9 of the values.
  const double backward_tolerance = dtype == DType::f64 ? 1e-8 : tolerance(dtype);
  CHECK(relative_error(results[0], y_ref) < tolerance(dtype));
  CHECK(relative_error(results[1], dx_ref) < backward_tolerance);
  // Sums are taken before the rounding to dtype: the f32 tolerance holds for bf16 too.
  CHECK(relative_error(results[2], dbias_ref) < (dtype == DType::f64 ? 1e-8 : 1e-5));
  const auto amax_of = [](const std::vector<double>& values) {
    double largest = 0.0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    return largest;
  };
  CHECK(results[3][0] == doctest::Approx(amax_of(y_ref)).epsilon(1e-5));
  CHECK(results[4][0] == doctest::Approx(amax_of(dx_ref)).epsilon(1e-5));
}

TEST_CASE("activation: every function and pair, forward and backward, against float64") {
  for (const ActivationType& type : all_types()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      check({type, dtype, 70, 67});
      check({type, dtype, 2, 1});
    }
    check({type, DType::f32, 33, 1030});
  }
}

TEST_CASE("activation: sizes that are worth two threads") {
  for (const ActivationType& type : {gelu, swiglu, clamped_swiglu}) {
    check({type, DType::bf16, 150, 1030});
  }
}

TEST_CASE("activation: other numbers for the clamped ones") {
  ActivationParams params;
  params.clamped_swiglu = {.limit = 1.5F, .alpha = 0.7F, .glu_linear_offset = -0.25F};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    check({clamped_swiglu, dtype, 40, 33, params});
  }
}

TEST_CASE("activation: no elements") {
  for (const std::int64_t rows : {0, 3}) {
    const std::int64_t cols = rows == 0 ? 5 : 0;
    const auto results = same_everywhere([&](Backend& backend) {
      Memory none(DType::f32, std::int64_t{0}), dbias(DType::f32, 2 * cols);
      Amax amax{1.0F};
      backend.activation(
          {.type = swiglu, .rows = rows, .cols = cols, .x = none.input(), .y = none.output(&amax)});
      backend.activation_backward({.type = swiglu,
                                   .rows = rows,
                                   .cols = cols,
                                   .dy = none.input(),
                                   .x = none.input(),
                                   .dx = none.output(),
                                   .dbias = dbias.data()});
      return std::vector{dbias, amax_memory(amax)};
    });
    CHECK(results[0].values() == std::vector<double>(static_cast<std::size_t>(2 * cols), 0.0));
    CHECK(results[1][0] == 0.0);
  }
}

/// Values and gradients (dy = 1) of one row in f32 or f64.
std::vector<Memory> evaluate(const ActivationType& type, DType dtype,
                             const std::vector<double>& x) {
  const Memory source(dtype, x);
  const std::int64_t cols = source.count() / type.count();
  const Memory dy(dtype, std::vector<double>(static_cast<std::size_t>(cols), 1.0));
  return same_everywhere([&](Backend& backend) {
    Memory y(dtype, cols), dx(dtype, source.count());
    backend.activation(
        {.type = type, .rows = 1, .cols = cols, .x = source.input(), .y = y.output()});
    backend.activation_backward({.type = type,
                                 .rows = 1,
                                 .cols = cols,
                                 .dy = dy.input(),
                                 .x = source.input(),
                                 .dx = dx.output()});
    return std::vector{y, dx};
  });
}

TEST_CASE("activation: known values") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    CHECK(evaluate(gelu, dtype, {1.0})[0][0] == doctest::Approx(0.841192).epsilon(1e-6));
    // A normal number, though s(-90) is none.
    CHECK(evaluate(silu, dtype, {-90.0})[0][0] / -7.3745e-38 == doctest::Approx(1).epsilon(1e-4));
    const auto swiglu_values = evaluate(swiglu, dtype, {1, 2, 3, 4});
    CHECK(swiglu_values[0][0] == doctest::Approx(2.1932).epsilon(1e-4));
    CHECK(swiglu_values[0][1] == doctest::Approx(7.0464).epsilon(1e-4));
    const auto clamped = evaluate(clamped_swiglu, dtype, {8, 7, -9, 7});
    CHECK(clamped[0][0] == doctest::Approx(-41.9997).epsilon(1e-6));
    CHECK(clamped[0][1] == doctest::Approx(55.9996).epsilon(1e-6));
    CHECK(clamped[1][0] == 0.0);
    CHECK(clamped[1][1] == doctest::Approx(8.0006).epsilon(1e-5));
    CHECK(clamped[1][2] == 0.0);
    CHECK(clamped[1][3] == doctest::Approx(7.0000).epsilon(1e-5));
    CHECK(evaluate(relu, dtype, {0.0})[1][0] == 0.0);
  }
}

TEST_CASE("activation: the negative tail keeps its precision") {
  for (const Act act : {Act::gelu, Act::silu, Act::quick_gelu, Act::sigmoid}) {
    CAPTURE(to_string(act));
    std::vector<double> x;
    for (double at = -9.0; at < 9.0; at += 0.01) x.push_back(static_cast<float>(at));
    const auto results = evaluate(act, DType::f32, x);
    double worst = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = value_of(act, x[i], {});
      if (expected == 0.0) continue;
      const double out = results[0][static_cast<std::int64_t>(i)];
      worst = std::max(worst, std::abs(out - expected) / std::abs(expected));
    }
    // The exponent's rounding, up to 40 in f32, is what is left.
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("activation: large values give the limits, NaN gives NaN") {
  for (const Act act : kActs) {
    CAPTURE(to_string(act));
    for (const DType dtype : {DType::f32, DType::f64}) {
      const std::vector<double> x = {kInf, 3e38, 1e4, -1e4, -3e38, -kInf, std::nan("")};
      const auto results = evaluate(act, dtype, x);
      const Memory &y = results[0], &dx = results[1];
      const bool sigmoid_like = act == Act::sigmoid;
      const bool odd = act == Act::linear || act == Act::clamped_linear;
      for (std::int64_t i = 3; i < 6 && !odd; ++i) {
        CHECK(y[i] == 0.0);
        CHECK(dx[i] == 0.0);
      }
      for (std::int64_t i = 0; i < 3; ++i) {
        const double at = Memory(dtype, x)[i];
        if (act == Act::squared_relu) continue;  // overflows, as it should
        if (sigmoid_like) CHECK(y[i] == 1.0);
        if (act == Act::clamped_silu) CHECK(y[i] == doctest::Approx(6.99995).epsilon(1e-5));
        if (act == Act::clamped_linear) CHECK(y[i] == 8.0);
        const bool bounded = sigmoid_like || act == Act::clamped_silu || act == Act::clamped_linear;
        if (!bounded) CHECK(y[i] == at);
        CHECK(dx[i] == (bounded ? 0.0 : 1.0));
      }
    }
  }
}

TEST_CASE("activation: NaN in, NaN out") {
  std::vector<double> x(40, 1.0);
  x[33] = std::nan("");
  for (const Act act : kActs) {
    CAPTURE(to_string(act));
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      for (const cpu::Isa isa : cpu::available_isas()) {
        const auto backend = cpu::make_backend(isa);
        const Memory source(dtype, x), dy(dtype, std::vector<double>(40, 1.0));
        Memory y(dtype, 40), dx(DType::e4m3, 40);
        Amax amax, dx_amax;
        backend->activation(
            {.type = act, .rows = 1, .cols = 40, .x = source.input(), .y = y.output(&amax)});
        backend->activation_backward({.type = act,
                                      .rows = 1,
                                      .cols = 40,
                                      .dy = dy.input(),
                                      .x = source.input(),
                                      .dx = dx.output(&dx_amax)});
        CHECK(std::isnan(amax.value));
        CHECK(std::isnan(dx_amax.value));
        for (std::int64_t i = 0; i < 40; ++i) {
          CHECK(std::isnan(y[i]) == (i == 33));
          CHECK(std::isnan(dx[i]) == (i == 33));
        }
      }
    }
  }
}

TEST_CASE("activation: the amax alone, of the values and not of the padding of a short row") {
  const Memory x(DType::f32, {-5.0, -6.0, -5.5});
  for (const cpu::Isa isa : cpu::available_isas()) {
    Amax amax;
    cpu::make_backend(isa)->activation(
        {.type = sigmoid, .rows = 1, .cols = 3, .x = x.input(), .y = {.amax = &amax}});
    CHECK(double{amax.value} == doctest::Approx(logistic(-5.0)).epsilon(1e-5));  // s(0) is 0.5
  }
}

TEST_CASE("activation: FP8 in and out with its scales") {
  const ScaleInv scale_inv{0.25F};
  const Scale scale{8.0F};
  const Memory x(DType::e4m3, random_values(300, 5, 20.0));
  Memory y_f32(DType::f32, 300);
  const auto results = same_everywhere([&](Backend& backend) {
    Memory y(DType::e5m2, 300);
    Amax amax;
    backend.activation({.type = gelu,
                        .rows = 3,
                        .cols = 100,
                        .x = x.input(&scale_inv),
                        .y = y.output(&amax, &scale)});
    backend.activation(
        {.type = gelu, .rows = 3, .cols = 100, .x = x.input(&scale_inv), .y = y_f32.output()});
    return std::vector{y, amax_memory(amax)};
  });
  std::vector<double> scaled;
  double largest = 0.0;
  for (std::int64_t i = 0; i < 300; ++i) {
    CHECK(y_f32[i] == doctest::Approx(value_of(Act::gelu, x[i] * 0.25, {})).epsilon(1e-4));
    scaled.push_back(y_f32[i] * 8.0);
    largest = std::max(largest, std::abs(y_f32[i]));
  }
  CHECK(results[0] == Memory(DType::e5m2, scaled));
  CHECK(results[1][0] == largest);
}

}  // namespace
}  // namespace tape8::test
