#include "backend/kernel_test.hpp"

namespace tape8::test {
namespace {

struct Case {
  NormType type = NormType::layernorm;
  DType dtype = DType::f32;
  std::int64_t rows = 1, cols = 1;
  bool zero_centered_gamma = false;
  bool with_beta = true;
  double mean = 0.5, deviation = 1.0;
  float epsilon = 1e-6F;
};

struct Reference {
  std::vector<double> y, mu, rsigma, dx, dgamma, dbeta;
};

Reference reference_of(const Case& test, const Memory& x, const Memory& gamma, const Memory* beta,
                       const Memory& dy) {
  const auto n = static_cast<double>(test.cols);
  const bool centered = test.type == NormType::layernorm;
  Reference ref;
  ref.dgamma.assign(static_cast<std::size_t>(test.cols), 0.0);
  ref.dbeta = ref.dgamma;
  for (std::int64_t r = 0; r < test.rows; ++r) {
    const auto at = [&](std::int64_t c) { return r * test.cols + c; };
    double mu = 0.0, variance = 0.0;
    for (std::int64_t c = 0; centered && c < test.cols; ++c) mu += x[at(c)] / n;
    for (std::int64_t c = 0; c < test.cols; ++c) variance += std::pow(x[at(c)] - mu, 2) / n;
    const double rsigma = 1.0 / std::sqrt(variance + double{test.epsilon});
    double mean_g = 0.0, mean_g_xhat = 0.0;
    const auto xhat = [&](std::int64_t c) { return (x[at(c)] - mu) * rsigma; };
    const auto weight = [&](std::int64_t c) { return gamma[c] + test.zero_centered_gamma; };
    for (std::int64_t c = 0; c < test.cols; ++c) {
      ref.y.push_back(xhat(c) * weight(c) + (beta == nullptr ? 0.0 : (*beta)[c]));
      ref.dgamma[static_cast<std::size_t>(c)] += dy[at(c)] * xhat(c);
      ref.dbeta[static_cast<std::size_t>(c)] += dy[at(c)];
      if (centered) mean_g += dy[at(c)] * weight(c) / n;
      mean_g_xhat += dy[at(c)] * weight(c) * xhat(c) / n;
    }
    for (std::int64_t c = 0; c < test.cols; ++c) {
      ref.dx.push_back(rsigma * (dy[at(c)] * weight(c) - mean_g - xhat(c) * mean_g_xhat));
    }
    ref.mu.push_back(mu);
    ref.rsigma.push_back(rsigma);
  }
  return ref;
}

void check(const Case& test) {
  CAPTURE(to_string(test.type));
  CAPTURE(to_string(test.dtype));
  CAPTURE(test.rows);
  CAPTURE(test.cols);
  const std::int64_t count = test.rows * test.cols;
  const DType stat = test.dtype == DType::f64 ? DType::f64 : DType::f32;
  const bool centered = test.type == NormType::layernorm;
  const Memory x(test.dtype, random_values(count, 31, test.deviation, test.mean));
  const Memory dy(test.dtype, random_values(count, 32, 1.0, 0.25));
  const Memory gamma(stat, random_values(test.cols, 33, 0.5, 0.75));
  const Memory beta(stat, random_values(test.cols, 34));
  const Reference ref = reference_of(test, x, gamma, test.with_beta ? &beta : nullptr, dy);
  const auto results = same_everywhere([&](Backend& backend) {
    Memory y(test.dtype, count), dx(test.dtype, count);
    Memory mu(stat, test.rows), rsigma(stat, test.rows);
    Memory dgamma(stat, test.cols), dbeta(stat, test.cols);
    Amax amax, dx_amax;
    backend.norm({.type = test.type,
                  .zero_centered_gamma = test.zero_centered_gamma,
                  .epsilon = test.epsilon,
                  .rows = test.rows,
                  .cols = test.cols,
                  .x = x.input(),
                  .gamma = gamma.data(),
                  .beta = test.with_beta ? beta.data() : nullptr,
                  .y = y.output(&amax),
                  .mu = centered ? mu.data() : nullptr,
                  .rsigma = rsigma.data()});
    NormBackwardArgs backward{.type = test.type,
                              .zero_centered_gamma = test.zero_centered_gamma,
                              .rows = test.rows,
                              .cols = test.cols,
                              .dy = dy.input(),
                              .x = x.input(),
                              .gamma = gamma.data(),
                              .mu = centered ? mu.data() : nullptr,
                              .rsigma = rsigma.data(),
                              .dx = dx.output(&dx_amax),
                              .dgamma = dgamma.data(),
                              .dbeta = dbeta.data()};
    backend.norm_backward(backward);
    // Each gradient on its own is the same.
    Memory dx_only(test.dtype, count), dgamma_only(stat, test.cols), dbeta_only(stat, test.cols);
    backward.dx = dx_only.output();
    backward.dgamma = backward.dbeta = nullptr;
    backend.norm_backward(backward);
    backward.dx = {};
    backward.dgamma = dgamma_only.data();
    backend.norm_backward(backward);
    backward.dgamma = nullptr;
    backward.dbeta = dbeta_only.data();
    backend.norm_backward(backward);
    CHECK(dx == dx_only);
    CHECK(dgamma == dgamma_only);
    CHECK(dbeta == dbeta_only);
    return std::vector{y, mu, rsigma, dx, dgamma, dbeta, amax_memory(amax), amax_memory(dx_amax)};
  });
  const double statistics = tolerance(stat);
  CHECK(relative_error(results[0], ref.y) < tolerance(test.dtype));
  if (centered) CHECK(relative_error(results[1], ref.mu) < statistics);
  CHECK(relative_error(results[2], ref.rsigma) < statistics);
  // A row of one has no gradient: what is left is rounding, next to terms of the size of rsigma.
  if (test.cols > 1 || !centered) {
    CHECK(relative_error(results[3], ref.dx) < tolerance(test.dtype));
    CHECK(relative_error(results[4], ref.dgamma) < statistics);
  }
  CHECK(relative_error(results[5], ref.dbeta) < statistics);
  double largest = 0.0;
  for (const double value : ref.y) largest = std::max(largest, std::abs(value));
  CHECK(results[6][0] == doctest::Approx(largest).epsilon(1e-5));
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) finite = finite && std::isfinite(results[3][i]);
  CHECK(finite);
}

TEST_CASE("norm: forward and backward against float64") {
  for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      check({.type = type, .dtype = dtype, .rows = 130, .cols = 767});
      check({.type = type, .dtype = dtype, .rows = 3, .cols = 4097});
      check({.type = type, .dtype = dtype, .rows = 5, .cols = 16, .zero_centered_gamma = true});
      check({.type = type, .dtype = dtype, .rows = 1, .cols = 33, .with_beta = false});
    }
    check({.type = type, .rows = 2, .cols = 9000, .zero_centered_gamma = true});
    check({.type = type, .rows = 1100, .cols = 40});
    check({.type = type, .rows = 70, .cols = 250});
  }
}

TEST_CASE("norm: a single column") {
  check({.type = NormType::layernorm, .rows = 9, .cols = 1, .epsilon = 0.5F});
  check({.type = NormType::rmsnorm, .rows = 9, .cols = 1, .epsilon = 0.5F});
}

TEST_CASE("norm: a mean far larger than the deviations") {
  // E[x^2] - E[x]^2 would have no correct digit here, and a mean rounded to f32 an error of 5e-4.
  check({.rows = 20, .cols = 768, .mean = 1e4});
  check({.rows = 2, .cols = 5000, .mean = -1e4});
  check({.dtype = DType::f64, .rows = 20, .cols = 100, .mean = 1e4});
}

TEST_CASE("norm: no rows, no columns") {
  for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
    const auto results = same_everywhere([&](Backend& backend) {
      Memory none(DType::f32, std::int64_t{0}), gamma(DType::f32, {1.0, 1.0, 1.0});
      Memory dgamma(DType::f32, {5.0, 5.0, 5.0}), dbeta = dgamma, mu(DType::f32, {7.0, 7.0});
      Memory rsigma = mu;
      Amax amax{3.0F};
      backend.norm({.type = type,
                    .rows = 0,
                    .cols = 3,
                    .x = none.input(),
                    .gamma = gamma.data(),
                    .y = none.output(&amax)});
      backend.norm_backward({.type = type,
                             .rows = 0,
                             .cols = 3,
                             .dy = none.input(),
                             .x = none.input(),
                             .gamma = gamma.data(),
                             .dx = none.output(),
                             .dgamma = dgamma.data(),
                             .dbeta = dbeta.data()});
      backend.norm({.type = type,
                    .rows = 2,
                    .cols = 0,
                    .x = none.input(),
                    .gamma = none.data(),
                    .y = none.output(),
                    .mu = mu.data(),
                    .rsigma = rsigma.data()});
      return std::vector{dgamma, dbeta, amax_memory(amax), mu};
    });
    CHECK(results[0].values() == std::vector<double>{0, 0, 0});
    CHECK(results[1].values() == std::vector<double>{0, 0, 0});
    CHECK(results[2][0] == 0.0);
    CHECK(results[3].values() == std::vector<double>{0, 0});
  }
}

TEST_CASE("norm: rmsnorm with zero-centered gamma, known values") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Memory x(dtype, {1, 2, 3, 4}), gamma(dtype, {3, 2, 1, 0}), dy(dtype, {1, 1, 1, 1});
    const auto results = same_everywhere([&](Backend& backend) {
      Memory y(dtype, 4), dx(dtype, 4), dgamma(dtype, 4), rsigma(dtype, 1);
      backend.norm({.type = NormType::rmsnorm,
                    .zero_centered_gamma = true,
                    .epsilon = 0.0F,
                    .rows = 1,
                    .cols = 4,
                    .x = x.input(),
                    .gamma = gamma.data(),
                    .y = y.output(),
                    .rsigma = rsigma.data()});
      backend.norm_backward({.type = NormType::rmsnorm,
                             .zero_centered_gamma = true,
                             .rows = 1,
                             .cols = 4,
                             .dy = dy.input(),
                             .x = x.input(),
                             .gamma = gamma.data(),
                             .rsigma = rsigma.data(),
                             .dx = dx.output(),
                             .dgamma = dgamma.data()});
      return std::vector{y, dx, dgamma};
    });
    CHECK(relative_error(results[0], {1.46059, 2.19089, 2.19089, 1.46059}) < 1e-5);
    CHECK(relative_error(results[1], {1.21716, 0.60858, 0.0, -0.60858}) < 1e-5);
    CHECK(relative_error(results[2], {0.36515, 0.73030, 1.09545, 1.46059}) < 1e-5);
  }
}

TEST_CASE("norm: a NaN stays in its row and makes amax NaN; FP8 output with its scale") {
  const std::int64_t cols = 50;
  std::vector<double> values = random_values(3 * cols, 41);
  values[70] = std::nan("");
  const Memory x(DType::bf16, values), gamma(DType::f32, std::vector<double>(50, 1.0));
  const Scale scale{100.0F};
  for (const cpu::Isa isa : cpu::available_isas()) {
    const auto backend = cpu::make_backend(isa);
    Memory q(DType::e4m3, 3 * cols), y(DType::f32, 3 * cols), rsigma(DType::f32, 3), mu = rsigma;
    Amax amax;
    NormArgs args{.rows = 3,
                  .cols = cols,
                  .x = x.input(),
                  .gamma = gamma.data(),
                  .y = q.output(&amax, &scale),
                  .mu = mu.data(),
                  .rsigma = rsigma.data()};
    backend->norm(args);
    args.y = y.output();
    backend->norm(args);
    CHECK(std::isnan(amax.value));
    for (std::int64_t i = 0; i < 3 * cols; ++i) {
      CHECK(std::isnan(q[i]) == (i / cols == 1));
      const auto scaled = static_cast<float>(y[i]) * 100.0F;
      if (i / cols != 1) CHECK(q[i] == decode(DType::e4m3, encode(DType::e4m3, scaled)));
    }
  }
}

}  // namespace
}  // namespace tape8::test
