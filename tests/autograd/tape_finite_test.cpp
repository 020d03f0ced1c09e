#include <cstdlib>
#include <limits>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>

#include "support/expect.hpp"
#include "support/own_ops.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::scaled;
using test::sum;

constexpr float kHuge = 3e38F;

/// x, whose gradient overflows.
Variable explodes_backward(const Variable& x) {
  return record("explodes", {x}, x.tensor().clone(), NothingSaved{},
                [shape = x.shape()](const NothingSaved&, Gradients& gradients) {
                  gradients.set(0, Tensor::full(shape, std::numeric_limits<double>::infinity()));
                });
}

TEST_CASE("finite: forward names the first op that makes an Inf or NaN of finite inputs") {
  const Variable w = parameter(Tensor::full({3}, 1.0));
  Tape tape({.check_finite = true});
  const Variable large = scaled(w, kHuge);
  check_throws<StateError>("scaled", [&] { scaled(large, 10.0F); }, {"forward"});
  check_throws<StateError>("sum", [&] { sum(large); }, {"forward"});
}

TEST_CASE("finite: an op without parameters is checked as well") {
  Tape tape({.check_finite = true});
  const Variable x{Tensor::full({3}, static_cast<double>(kHuge))};
  check_throws<StateError>("scaled", [&] { scaled(x, 10.0F); });
}

TEST_CASE("finite: an op that is given an Inf is not the first") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Variable w = parameter(Tensor::full({3}, kInfinity));
  Tape tape({.check_finite = true});
  CHECK_NOTHROW(scaled(w, 2.0F));
}

TEST_CASE("finite: backward names the op, and changes no gradient") {
  const Variable w = parameter(Tensor::full({3}, 1.0));
  Tape tape({.check_finite = true});
  const Variable loss = sum(scaled(explodes_backward(scaled(w, 2.0F)), 2.0F));
  check_throws<StateError>("explodes", [&] { tape.backward(loss); }, {"backward"});
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("finite: unchecked unless asked") {
  if (std::getenv("TAPE8_CHECK_FINITE") != nullptr) return;
  const Variable w = parameter(Tensor::full({3}, 1.0));
  Tape tape;
  tape.backward(sum(explodes_backward(scaled(scaled(w, kHuge), 10.0F))));
  CHECK(w.grad().to_vector<float>()[0] == std::numeric_limits<float>::infinity());
}

// Run by a test of its own, with the variable set.
TEST_CASE("finite by environment: TAPE8_CHECK_FINITE=1 checks every tape" *
          doctest::skip(std::getenv("TAPE8_CHECK_FINITE") == nullptr)) {
  REQUIRE(std::getenv("TAPE8_CHECK_FINITE") != nullptr);
  const Variable w = parameter(Tensor::full({3}, 1.0));
  Tape tape;
  const Variable large = scaled(w, kHuge);
  check_throws<StateError>("scaled", [&] { scaled(large, 10.0F); });
}

}  // namespace
}  // namespace tape8
