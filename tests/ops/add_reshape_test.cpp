#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/arithmetic.hpp>
#include <tape8/ops/reshape.hpp>

#include "support/expect.hpp"
#include "support/float_table.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::Ran;
using test::Values;
using test::values_of;

Variable add_both(const std::vector<Variable>& in) { return add(in[0], in[1]); }

TEST_CASE("add: sums are rounded once, gradients pass through") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{767}, Shape{3, 5, 7}, Shape{0, 4}}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(shape));
      const Tensor a = test::random_tensor(shape, 1, dtype);
      const Tensor b = test::random_tensor(shape, 2, dtype);
      const Ran ran = test::run({a, b}, add_both);
      Values sums = values_of(a);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values_of(b)[i];
      CHECK(values_of(ran.y) == test::rounded(sums, dtype));
      CHECK(ran.y.dtype() == dtype);
      CHECK(values_of(ran.gradients[0]) == values_of(ran.dy));
      CHECK(values_of(ran.gradients[1]) == values_of(ran.dy));
    }
  }
}

TEST_CASE("add: of a variable to itself") {
  const Variable x = parameter(Tensor::from({1.0F, 2.0F}, {2}));
  Tape tape;
  const Variable y = x + x;
  CHECK(y.tensor().to_vector<float>() == std::vector<float>{2, 4});
  tape.backward(y, Tensor::from({1.0F, 3.0F}, {2}));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{2, 6});
  CHECK(tape.saved_for_backward_bytes() == 0);
}

TEST_CASE("add: views, and refusals") {
  const Tensor a = test::random_tensor({4, 3}, 3);
  const Tensor b = test::random_tensor({3, 4}, 4);
  const Ran strided = test::run({a.transpose(0, 1), b}, add_both);
  const Ran plain = test::run({a.transpose(0, 1).clone(), b}, add_both);
  CHECK(test::bytes_of(strided.y) == test::bytes_of(plain.y));
  check_throws<ShapeError>("add", [&] { add(a, b); }, {"(4, 3)", "(3, 4)"});
  check_throws<ShapeError>("add", [&] { add(a, Tensor::zeros({3})); });
  check_throws<DTypeError>("add", [&] { add(a, a.to(DType::bf16)); }, {"f32", "bf16"});
  check_throws<DTypeError>(
      "add", [&] { add(Tensor::zeros({2}, DType::i32), Tensor::zeros({2}, DType::i32)); }, {"i32"});
  CHECK_THROWS_AS(add(a, Variable{}), Error);
  CHECK_THROWS_AS(add(Variable{}, a), Error);
}

TEST_CASE("reshape: a view forward, the input's shape backward") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = test::random_tensor({2, 6}, 5, dtype);
    const Ran ran = test::run({x}, [](const std::vector<Variable>& in) {
      return reshape(in[0], {3, 4});
    });
    CHECK(ran.y.shape() == Shape{3, 4});
    CHECK(ran.y.shares_storage(x));
    CHECK(values_of(ran.y) == values_of(x));
    CHECK(ran.gradients[0].shape() == Shape{2, 6});
    CHECK(values_of(ran.gradients[0]) == values_of(ran.dy));
  }
  const Ran turned = test::run({test::random_tensor({2, 3}, 6).transpose(0, 1)},
                               [](const std::vector<Variable>& in) { return reshape(in[0], {6}); });
  CHECK(values_of(turned.y)[1] == values_of(test::random_tensor({2, 3}, 6))[3]);
  CHECK(turned.gradients[0].shape() == Shape{3, 2});
  CHECK(values_of(turned.gradients[0]) == values_of(turned.dy));
  check_throws<ShapeError>("reshape",
                           [] {
                             reshape(Tensor::zeros({2, 6}), {5});
                           },
                           {"(5)", "(2, 6)"});
  CHECK_THROWS_AS(reshape(Variable{}, {5}), Error);
}

}  // namespace
}  // namespace tape8
