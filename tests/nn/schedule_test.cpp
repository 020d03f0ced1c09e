#include <cmath>
#include <limits>
#include <numbers>

#include <doctest/doctest.h>

#include <tape8/nn/optimizer.hpp>
#include <tape8/nn/schedule.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

using test::check_throws;

TEST_CASE("WarmupCosine: rises in equal steps, then falls along half a cosine") {
  const WarmupCosine schedule({.peak = 2.0F, .final = 0.5F, .warmup_steps = 4, .total_steps = 12});
  CHECK(schedule(0) == 0.5F);
  CHECK(schedule(1) == 1.0F);
  CHECK(schedule(2) == 1.5F);
  CHECK(schedule(3) == 2.0F);
  CHECK(schedule(4) == 2.0F);  // the top of the cosine
  for (std::int64_t step = 4; step <= 12; ++step) {
    CAPTURE(step);
    const double t = static_cast<double>(step - 4) / 8.0;
    const double expected = 0.5 + 1.5 * 0.5 * (1.0 + std::cos(std::numbers::pi * t));
    CHECK(static_cast<double>(schedule(step)) == doctest::Approx(expected).epsilon(1e-6));
  }
  CHECK(schedule(8) == doctest::Approx(1.25));
  for (const std::int64_t step : {12, 13, 1000000}) CHECK(schedule(step) == 0.5F);
}

TEST_CASE("WarmupCosine: no warm-up, a rise instead of a fall, and steps past 32 bits") {
  const WarmupCosine plain({.peak = 1.0F, .total_steps = 10});
  CHECK(plain(0) == 1.0F);
  CHECK(plain(5) == doctest::Approx(0.5));
  CHECK(plain(10) == 0.0F);
  const WarmupCosine rising({.peak = 1.0F, .final = 3.0F, .total_steps = 10});
  CHECK(rising(0) == 1.0F);
  CHECK(rising(5) == doctest::Approx(2.0));
  CHECK(rising(10) == 3.0F);
  constexpr std::int64_t kLong = std::int64_t{1} << 40;
  const WarmupCosine slow({.peak = 1.0F, .warmup_steps = kLong, .total_steps = 3 * kLong});
  CHECK(slow(kLong / 2 - 1) == doctest::Approx(0.5));
  CHECK(slow(2 * kLong) == doctest::Approx(0.5));
}

TEST_CASE("WarmupCosine: never above the peak nor below the end, and only falls after the peak") {
  const WarmupCosine schedule(
      {.peak = 1e-3F, .final = 1e-5F, .warmup_steps = 7, .total_steps = 101});
  for (std::int64_t step = 0; step < 120; ++step) {
    CAPTURE(step);
    CHECK(schedule(step) <= 1e-3F);
    CHECK(schedule(step) > 0.0F);
    if (step >= 7) {
      CHECK(schedule(step) >= 1e-5F);
      CHECK(schedule(step + 1) <= schedule(step));
    } else {
      CHECK(schedule(step) / 1e-3 == doctest::Approx(static_cast<double>(step + 1) / 7.0));
    }
  }
}

TEST_CASE("WarmupCosine: an optimizer takes what it gives") {
  const Variable w = parameter(Tensor::zeros({1}));
  SGD optimizer({w}, {});
  const WarmupCosine schedule({.peak = 1.0F, .warmup_steps = 2, .total_steps = 4});
  optimizer.set_learning_rate(schedule(optimizer.steps()));
  CHECK(optimizer.learning_rate() == 0.5F);
  optimizer.step();
  optimizer.set_learning_rate(schedule(optimizer.steps()));
  CHECK(optimizer.learning_rate() == 1.0F);
}

TEST_CASE("WarmupCosine: refusals") {
  const auto make = [](const WarmupCosineOptions& options) {
    return [options] { (void)WarmupCosine(options); };
  };
  constexpr const char* kOp = "warmup_cosine";
  for (const float bad :
       {-1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    check_throws<OptionError>(kOp, make({.peak = bad}), {"peak"});
    check_throws<OptionError>(kOp, make({.final = bad}), {"final"});
  }
  check_throws<OptionError>(kOp, make({.warmup_steps = -1, .total_steps = 5}), {"warmup_steps"});
  check_throws<OptionError>(kOp, make({.warmup_steps = 5, .total_steps = 5}), {"5"});
  check_throws<OptionError>(kOp, make({.warmup_steps = 6, .total_steps = 5}), {"6", "5"});
  check_throws<OptionError>(kOp, make({.total_steps = 0}), {"total_steps"});
  check_throws<OptionError>(kOp, [] { (void)WarmupCosine({})(-1); }, {"-1"});
  CHECK_NOTHROW(make({})());
}

}  // namespace
}  // namespace tape8
