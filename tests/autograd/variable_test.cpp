#include <doctest/doctest.h>

#include <tape8/autograd/variable.hpp>

#include "support/expect.hpp"
#include "support/own_ops.hpp"

namespace tape8 {
namespace {

using test::check_throws;

TEST_CASE("variable: none") {
  Variable none;
  CHECK_FALSE(none.defined());
  CHECK_FALSE(static_cast<bool>(none));
  CHECK_FALSE(Variable(Tensor{}).defined());
  check_throws<StateError>("variable", [&] { (void)none.tensor(); });
  check_throws<StateError>("variable", [&] { (void)none.shape(); });
  check_throws<StateError>("variable", [&] { (void)none.dtype(); });
  check_throws<StateError>("variable", [&] { (void)none.grad(); });
  check_throws<StateError>("variable", [&] { none.zero_grad(); });
  check_throws<StateError>("variable", [&] { (void)none.requires_grad(); });
  check_throws<StateError>("variable", [&] { none.set_requires_grad(true); });
  check_throws<StateError>("variable", [&] { (void)none.name(); });
  check_throws<StateError>("variable", [&] { (void)none.is_leaf(); });
}

TEST_CASE("variable: constants") {
  const Tensor t = Tensor::zeros({2, 3}, DType::bf16);
  const Variable x = t;
  CHECK(x.tensor().shares_storage(t));
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.dtype() == DType::bf16);
  CHECK_FALSE(x.requires_grad());
  CHECK(x.is_leaf());
  CHECK(x.name().empty());
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("variable: parameters are leaves that share the tensor's memory") {
  const Tensor t = Tensor::zeros({2});
  const Variable w = parameter(t, "w");
  CHECK(w.tensor().shares_storage(t));
  CHECK(w.requires_grad());
  CHECK(w.is_leaf());
  CHECK(w.name() == "w");
  CHECK_FALSE(w.grad().defined());
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    CHECK(parameter(Tensor::zeros({1}, dtype)).requires_grad());
  }
  for (const DType dtype : {DType::e4m3, DType::e5m2, DType::e2m1, DType::e8m0, DType::i32,
                            DType::i64, DType::u8, DType::boolean}) {
    CAPTURE(to_string(dtype));
    check_throws<DTypeError>("parameter", [&] { parameter(Tensor::zeros({2}, dtype)); },
                             {to_string(dtype)});
  }
  CHECK_THROWS_AS(parameter(Tensor{}), Error);
}

TEST_CASE("variable: copies share gradient and freezing") {
  Variable w = parameter(Tensor::full({2}, 3.0));
  Variable copy = w;
  {
    Tape tape;
    tape.backward(test::sum(w));
  }
  CHECK(copy.grad().to_vector<float>() == std::vector<float>{1, 1});
  copy.zero_grad();
  CHECK_FALSE(w.grad().defined());
  copy.set_requires_grad(false);
  CHECK_FALSE(w.requires_grad());
  w.set_requires_grad(true);
  CHECK(copy.requires_grad());
}

TEST_CASE("variable: results of ops are neither leaves nor to be frozen") {
  const Variable w = parameter(Tensor::full({2}, 3.0));
  Tape tape;
  Variable y = test::sum(w);
  CHECK(y.requires_grad());
  CHECK_FALSE(y.is_leaf());
  CHECK_FALSE(y.grad().defined());
  check_throws<StateError>("set_requires_grad", [&] { y.set_requires_grad(false); });
  tape.backward(y);
  CHECK_FALSE(y.grad().defined());
}

}  // namespace
}  // namespace tape8
