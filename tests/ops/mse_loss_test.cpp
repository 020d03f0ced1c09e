#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/mse_loss.hpp>

#include "support/check_op.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::kComputeTypes;
using test::Ran;
using test::Values;
using test::values_of;

Variable loss_of(const std::vector<Variable>& in) { return mse_loss(in[0], in[1]); }

Values reference(const std::vector<Values>& in) {
  double total = 0.0;
  for (std::size_t i = 0; i < in[0].size(); ++i) {
    total += (in[0][i] - in[1][i]) * (in[0][i] - in[1][i]);
  }
  return {in[0].empty() ? 0.0 : total / static_cast<double>(in[0].size())};
}

TEST_CASE("mse_loss: loss and both gradients against float64") {
  for (const DType dtype : kComputeTypes) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{767}, Shape{3, 5, 7}, Shape{33, 65}}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(shape));
      const Tensor prediction = test::random_tensor(shape, 1, dtype);
      const Tensor target = test::random_tensor(shape, 2, dtype);
      const Ran ran = test::run({prediction, target}, loss_of);
      CHECK(ran.y.shape() == Shape{});
      CHECK(ran.y.dtype() == (dtype == DType::f64 ? DType::f64 : DType::f32));
      test::check_close(ran.y, reference({values_of(prediction), values_of(target)}));
      Values gradient = values_of(prediction);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = 2.0 * (gradient[i] - values_of(target)[i]) * values_of(ran.dy)[0] /
                      static_cast<double>(gradient.size());
      }
      test::check_close(ran.gradients[0], gradient);
      for (double& value : gradient) value = -value;
      test::check_close(ran.gradients[1], gradient);
      CHECK(ran.gradients[0].dtype() == dtype);
      CHECK(ran.gradients[1].dtype() == dtype);
    }
  }
}

TEST_CASE("mse_loss: gradients equal central differences") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    test::check_op({test::random_tensor({4, 5}, 3, dtype), test::random_tensor({4, 5}, 4, dtype)},
                   loss_of, reference);
  }
}

TEST_CASE("mse_loss: the loss of 16-bit values is not rounded to 16 bits") {
  // A million squares of 2^-10: a sum in bf16 or f16 would have stopped long before.
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor prediction = Tensor::full({1024, 1024}, 0x1p-5, dtype);
    const Variable loss = mse_loss(prediction, Tensor::zeros({1024, 1024}, dtype));
    CHECK(loss.tensor().item<double>() == 0x1p-10);
  }
}

TEST_CASE("mse_loss: no elements, views, and what is kept") {
  const Ran none = test::run({Tensor::zeros({0, 3}), Tensor::zeros({0, 3})}, loss_of);
  CHECK(none.y.item<float>() == 0.0F);
  CHECK(none.gradients[0].shape() == Shape{0, 3});
  CHECK(none.gradients[1].shape() == Shape{0, 3});
  for (const DType dtype : kComputeTypes) {
    test::check_views(
        {test::random_tensor({4, 7}, 5, dtype), test::random_tensor({4, 7}, 6, dtype)}, loss_of);
  }
  const Tensor a = test::random_tensor({64}, 1);
  CHECK(test::bytes_kept({a, test::random_tensor({64}, 2)}, loss_of) == 2 * 64 * 4);
}

TEST_CASE("mse_loss: a constant target, and a constant prediction") {
  const Tensor a = test::random_tensor({5}, 7);
  const Tensor b = test::random_tensor({5}, 8);
  const Ran both = test::run_from({a, b}, loss_of, Tensor::full({}, 1.0));
  const Variable w = parameter(a);
  const Variable t = parameter(b);
  {
    Tape tape;
    tape.backward(mse_loss(w, b));
  }
  {
    Tape tape;
    tape.backward(mse_loss(a, t));
  }
  CHECK(test::bytes_of(w.grad()) == test::bytes_of(both.gradients[0]));
  CHECK(test::bytes_of(t.grad()) == test::bytes_of(both.gradients[1]));
}

TEST_CASE("mse_loss: refusals") {
  const Tensor a = Tensor::zeros({2, 3});
  check_throws<ShapeError>("mse_loss",
                           [&] {
                             (void)mse_loss(a, Tensor::zeros({3, 2}));
                           },
                           {"target", "(2, 3)", "(3, 2)"});
  check_throws<ShapeError>("mse_loss", [&] { (void)mse_loss(a, Tensor::zeros({3})); }, {"(3)"});
  check_throws<DTypeError>("mse_loss", [&] { (void)mse_loss(a, a.to(DType::bf16)); },
                           {"target", "f32", "bf16"});
  check_throws<DTypeError>("mse_loss", [&] { (void)mse_loss(a.to(DType::i64), a); },
                           {"prediction", "i64"});
  check_throws<OptionError>("mse_loss", [&] { (void)mse_loss(Variable{}, a); },
                            {"prediction", "none"});
  check_throws<OptionError>("mse_loss", [&] { (void)mse_loss(a, Variable{}); }, {"target", "none"});
}

}  // namespace
}  // namespace tape8
