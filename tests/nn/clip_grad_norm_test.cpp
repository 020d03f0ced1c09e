#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/nn/optimizer.hpp>

#include "support/expect.hpp"
#include "support/gradients.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::check_close;
using test::check_throws;
using test::give_gradient;
using test::Values;
using test::values_of;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Variable with_gradient(const Tensor& gradient) {
  const Variable w = parameter(Tensor::zeros(gradient.shape(), gradient.dtype()));
  give_gradient(w, gradient);
  return w;
}

double norm_of(const std::vector<Variable>& parameters) {
  double squares = 0.0;
  for (const Variable& p : parameters) {
    if (!p.grad().defined()) continue;
    for (const double g : values_of(p.grad())) squares += g * g;
  }
  return std::sqrt(squares);
}

/// Gradients of odd sizes in every type, and one parameter without.
std::vector<Variable> mixed() {
  return {with_gradient(test::random_tensor({767}, 1)),
          with_gradient(test::random_tensor({9, 33}, 2, DType::bf16)),
          with_gradient(test::random_tensor({5}, 3, DType::f16)),
          with_gradient(test::random_tensor({3, 4}, 4, DType::f64)),
          with_gradient(test::random_tensor({}, 5)),
          with_gradient(Tensor::zeros({0, 4})),
          parameter(Tensor::zeros({3}))};
}

TEST_CASE("clip_grad_norm: returns the joint norm and scales down to the limit") {
  for (const float limit : {0.5F, 3.0F, 1e-3F}) {
    CAPTURE(limit);
    const std::vector<Variable> parameters = mixed();
    const double norm = norm_of(parameters);
    std::vector<Values> before;
    for (const Variable& p : parameters) {
      before.push_back(p.grad().defined() ? values_of(p.grad()) : Values{});
    }
    CHECK(static_cast<double>(clip_grad_norm(parameters, limit)) ==
          doctest::Approx(norm).epsilon(1e-6));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      CAPTURE(i);
      const Tensor& gradient = parameters[i].grad();
      CHECK(gradient.defined() == (i != 6));
      if (!gradient.defined()) continue;
      for (double& value : before[i]) value *= static_cast<double>(limit) / norm;
      check_close(gradient, before[i]);
    }
    // To a rounding of the 16-bit gradients among them.
    CHECK(norm_of(parameters) == doctest::Approx(static_cast<double>(limit)).epsilon(4e-3));
  }
}

TEST_CASE("clip_grad_norm: 3, 4 and 12 are 13") {
  const Variable a = with_gradient(Tensor::from({3.0F, 4.0F}, {2}));
  const Variable b = with_gradient(Tensor::from({-12.0F}, {1}));
  CHECK(clip_grad_norm({a, b}, 6.5F) == 13.0F);
  CHECK(values_of(a.grad()) == Values{1.5, 2.0});
  CHECK(values_of(b.grad()) == Values{-6.0});
}

TEST_CASE("clip_grad_norm: at the limit and below nothing changes, not even the version") {
  for (const float limit : {13.0F, 13.5F, 1e30F, kInfinity}) {
    CAPTURE(limit);
    const Variable w = with_gradient(Tensor::from({3.0F, 4.0F, 12.0F}, {3}));
    const auto version = w.grad().version();
    CHECK(clip_grad_norm({w}, limit) == 13.0F);
    CHECK(values_of(w.grad()) == Values{3, 4, 12});
    CHECK(w.grad().version() == version);
  }
}

TEST_CASE("clip_grad_norm: a norm that is not finite changes nothing") {
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    CAPTURE(bad);
    const Variable good = with_gradient(Tensor::from({3.0F, 400.0F}, {2}));
    const Variable w = with_gradient(Tensor::from({1.0F, bad}, {2}));
    const auto before = bytes_of(w.grad());
    const float norm = clip_grad_norm({good, w}, 1.0F);
    CHECK((std::isnan(bad) ? std::isnan(norm) : norm == kInfinity));
    CHECK(values_of(good.grad()) == Values{3, 400});
    CHECK(bytes_of(w.grad()) == before);
  }
}

TEST_CASE("clip_grad_norm: squares past f32 do not overflow") {
  const Variable w = with_gradient(Tensor::from({3e30F, 4e30F}, {2}));
  CHECK(clip_grad_norm({w}, 1.0F) == doctest::Approx(5e30).epsilon(1e-6));
  check_close(w.grad(), {0.6, 0.8});
  const Variable tiny = with_gradient(Tensor::from({3e-30F, 4e-30F}, {2}));
  CHECK(clip_grad_norm({tiny}, 1e-30F) / 5e-30 == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("clip_grad_norm: no gradients, and refusals") {
  CHECK(clip_grad_norm({}, 1.0F) == 0.0F);
  CHECK(clip_grad_norm({parameter(Tensor::zeros({3}))}, 1.0F) == 0.0F);
  const Variable w = with_gradient(Tensor::from({3.0F}, {1}));
  for (const float bad : {0.0F, -1.0F, kNaN}) {
    check_throws<OptionError>("clip_grad_norm", [&] { (void)clip_grad_norm({w}, bad); },
                              {"max_norm"});
  }
  check_throws<OptionError>("clip_grad_norm",
                            [&] {
                              (void)clip_grad_norm({w, {}}, 1.0F);
                            },
                            {"parameters[1]", "none"});
  // It would count twice in the norm and be scaled twice.
  check_throws<OptionError>("clip_grad_norm",
                            [&] {
                              (void)clip_grad_norm({w, w}, 1.0F);
                            },
                            {"parameters[1]", "once"});
  CHECK(values_of(w.grad()) == Values{3.0});
}

TEST_CASE("clip_grad_norm: a norm past f32 is not finite and changes nothing") {
  const Variable w = with_gradient(Tensor::from({3e38F, 3e38F}, {2}));
  CHECK(std::isinf(clip_grad_norm({w}, 1.0F)));
  CHECK(w.grad().to_vector<float>() == std::vector<float>{3e38F, 3e38F});
}

}  // namespace
}  // namespace tape8
