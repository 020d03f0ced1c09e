#include <cmath>

#include <doctest/doctest.h>

#include <tape8/nn/init.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

using test::Values;

struct Spread {
  double mean = 0.0, deviation = 0.0, largest = 0.0;
};

Spread spread_of(const Tensor& tensor) {
  const Values values = test::values_of(tensor);
  const auto n = static_cast<double>(values.size());
  Spread spread;
  for (const double v : values) spread.mean += v / n;
  for (const double v : values) spread.deviation += (v - spread.mean) * (v - spread.mean) / n;
  spread.deviation = std::sqrt(spread.deviation);
  spread.largest = test::largest_magnitude(values);
  return spread;
}

// 80000 values: the deviation's standard error is 0.25 % of it, the mean's 0.35 %; five of them.
const Shape kShape{400, 200};
constexpr double kRelative = 0.0125;

void check_normal(const Initializer& init, double deviation) {
  Rng rng(1);
  const Spread spread = spread_of(init(kShape, rng));
  CHECK(std::fabs(spread.mean) < 0.018 * deviation);
  CHECK(std::fabs(spread.deviation - deviation) < kRelative * deviation);
  CHECK(spread.largest > 3.5 * deviation);
}

TEST_CASE("init: normals have the variance of their rule") {
  check_normal(normal(0.3F), 0.3);
  check_normal(lecun_normal(), std::sqrt(1.0 / 400.0));
  check_normal(he_normal(), std::sqrt(2.0 / 400.0));
}

TEST_CASE("init: glorot_uniform fills its interval") {
  Rng rng(1);
  const double bound = std::sqrt(6.0 / 600.0);
  const Spread spread = spread_of(glorot_uniform()(kShape, rng));
  CHECK(spread.largest <= bound * (1.0 + 1e-6));
  CHECK(spread.largest > 0.999 * bound);
  CHECK(std::fabs(spread.deviation - bound / std::sqrt(3.0)) < kRelative * bound);
  CHECK(std::fabs(spread.mean) < 0.02 * bound);
}

TEST_CASE("init: fan_out counts every output axis") {
  Rng rng(1);
  const Spread spread = spread_of(glorot_uniform()({100, 2, 150}, rng));
  const double bound = std::sqrt(6.0 / 400.0);
  CHECK(spread.largest <= bound * (1.0 + 1e-6));
  CHECK(spread.largest > 0.999 * bound);
}

TEST_CASE("init: constants, shapes and types, and one generator for all") {
  Rng rng(1);
  CHECK(test::values_of(constant(0.25F)({2, 3}, rng)) == Values(6, 0.25));
  for (const Initializer& init :
       {constant(1.0F), normal(1.0F), lecun_normal(), he_normal(), glorot_uniform()}) {
    const Tensor made = init({3, 4}, rng);
    CHECK(made.shape() == Shape{3, 4});
    CHECK(made.dtype() == DType::f32);
  }
  CHECK(test::bytes_of(lecun_normal()({3, 4}, rng)) != test::bytes_of(lecun_normal()({3, 4}, rng)));
  Rng again(5);
  Rng same(5);
  CHECK(test::bytes_of(he_normal()({3, 4}, again)) == test::bytes_of(he_normal()({3, 4}, same)));
}

}  // namespace
}  // namespace tape8
