#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/nn/layernorm_mlp.hpp>
#include <tape8/ops/activation.hpp>

#include "support/check_op.hpp"
#include "support/float_table.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::kComputeTypes;
using test::Ran;
using test::Values;
using test::values_of;

const ActivationPart kSoftplus = make_activation([](auto x) { return std::log1p(std::exp(x)); },
                                                 [](auto x) { return 1 / (1 + std::exp(-x)); });
const ActivationPart kSquare =
    make_activation([](auto x) { return x * x; }, [](auto x) { return x + x; });
const ActivationPart kFloatOnly =
    make_activation([](float x) { return x * x; }, [](float x) { return 2.0F * x; });
const ActivationPart kOwnRelu = make_activation([](auto x) { return x > 0 ? x : decltype(x){0}; },
                                                [](auto x) { return decltype(x)(x > 0 ? 1 : 0); });

test::Op op_of(const ActivationType& type, const Quantizer& quantizer = {}) {
  return [=](const std::vector<Variable>& in) { return activation(in[0], type, quantizer); };
}

double softplus(double x) { return std::log1p(std::exp(x)); }

Values softplus_of_all(const std::vector<Values>& in) {
  Values y = in[0];
  for (double& value : y) value = softplus(value);
  return y;
}

/// softplus(a) * b over halves of rows of 2 * cols.
test::Forward gated_softplus(std::size_t cols) {
  return [cols](const std::vector<Values>& in) {
    Values y(in[0].size() / 2);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t at = i / cols * 2 * cols + i % cols;
      y[i] = softplus(in[0][at]) * in[0][at + cols];
    }
    return y;
  };
}

TEST_CASE("make_activation: values and gradient of a function of one's own") {
  for (const DType dtype : kComputeTypes) {
    for (const Shape& shape : {Shape{1}, Shape{5, 17}, Shape{1, 767}, Shape{0, 4}}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(shape));
      const Tensor x = test::random_tensor(shape, 1, dtype, -3.0, 3.0);
      test::check_op({x}, op_of(kSoftplus), softplus_of_all);
    }
  }
}

TEST_CASE("make_activation: gated with a function of tape8's, on either side") {
  for (const DType dtype : kComputeTypes) {
    CAPTURE(to_string(dtype));
    const Tensor x = test::random_tensor({5, 34}, 2, dtype, -3.0, 3.0);
    test::check_op({x}, op_of({kSoftplus, Act::linear}), gated_softplus(17));
    // The halves of each row exchanged.
    const test::Forward by_row = [](const std::vector<Values>& in) {
      std::vector<Values> shifted = in;
      for (std::size_t row = 0; row < 5; ++row) {
        for (std::size_t c = 0; c < 34; ++c) {
          shifted[0][row * 34 + c] = in[0][row * 34 + (c + 17) % 34];
        }
      }
      return gated_softplus(17)(shifted);
    };
    test::check_op({x}, op_of({Act::linear, kSoftplus}), by_row);
  }
}

TEST_CASE("make_activation: two of one's own, twice the same, and four parts") {
  const Tensor x = test::random_tensor({3, 8}, 3, DType::f64, 0.5, 2.0);
  test::check_op({x}, op_of({kSquare, kSquare}), [](const std::vector<Values>& in) {
    Values y(12);
    for (std::size_t i = 0; i < 12; ++i) {
      const std::size_t at = i / 4 * 8 + i % 4;
      y[i] = in[0][at] * in[0][at] * in[0][at + 4] * in[0][at + 4];
    }
    return y;
  });
  test::check_op({x}, op_of({kSoftplus, kSquare, Act::linear, kSquare}),
                 [](const std::vector<Values>& in) {
                   Values y(6);
                   for (std::size_t i = 0; i < 6; ++i) {
                     const double* at = in[0].data() + i / 2 * 8 + i % 2;
                     y[i] = softplus(at[0]) * at[2] * at[2] * at[4] * at[6] * at[6];
                   }
                   return y;
                 });
}

TEST_CASE("make_activation: the function that tape8 has gives its bits") {
  for (const DType dtype : kComputeTypes) {
    CAPTURE(to_string(dtype));
    const Tensor x = test::random_tensor({4, 66}, 4, dtype, -3.0, 3.0);
    const auto equal = [&](const ActivationType& own, const ActivationType& built_in) {
      const Ran a = test::run({x}, op_of(own));
      const Ran b = test::run({x}, op_of(built_in));
      CHECK(values_of(a.y) == values_of(b.y));
      CHECK(values_of(a.gradients[0]) == values_of(b.gradients[0]));
    };
    equal(kOwnRelu, relu);
    equal({kOwnRelu, Act::linear}, reglu);
    equal({Act::silu,
           make_activation([](auto v) { return v; }, [](auto v) { return decltype(v){1}; })},
          swiglu);
  }
}

TEST_CASE("make_activation: a function of float alone works on all but f64") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor x = test::random_tensor({4, 6}, 5, dtype);
    test::check_op({x}, op_of(kFloatOnly), [](const std::vector<Values>& in) {
      Values y = in[0];
      for (double& value : y) value *= value;
      return y;
    });
  }
  CHECK((kFloatOnly.custom()->value_f64 == nullptr));
  CHECK((kSoftplus.custom()->value_f64 != nullptr));
  const Tensor x = Tensor::zeros({4}, DType::f64);
  check_throws<DTypeError>("activation", [&] { (void)activation(x, kFloatOnly); }, {"f64"});
  check_throws<DTypeError>("activation",
                           [&] {
                             (void)activation(x, {Act::silu, kFloatOnly});
                           },
                           {"f64"});
  // One generic half is not enough.
  const ActivationPart half = make_activation([](auto v) { return v; }, [](float) { return 1.0F; });
  check_throws<DTypeError>("activation", [&] { (void)activation(x, half); }, {"f64"});
}

TEST_CASE("make_activation: with a quantizer the f32 result is cast") {
  Quantizer q = make_quantizer(DelayedScaling{.amax_history_len = 2}, TensorRole::x);
  q.set_state(Scale{30.0F}, std::vector<float>{0.0F, 1.0F});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = test::random_tensor({4, 66}, 6, dtype, -3.0, 3.0);
    const ActivationType gated{kSoftplus, Act::linear};
    const Values exact = values_of(activation(x.to(DType::f32), gated).tensor());
    const Values cast = test::cast_and_decoded(exact, 30.0F, DType::e4m3);
    const Values y = values_of(activation(x, gated, q).tensor());
    CHECK(y == test::rounded(test::rounded(cast, DType::f32), dtype));
  }
}

TEST_CASE("make_activation: in LayerNormMLP, the same as the built-in that it equals") {
  for (const Recipe& recipe : {Recipe{HighPrecision{}}, Recipe{DelayedScaling{}}}) {
    const auto result = [&](const ActivationType& type) {
      Rng rng(7);
      const LayerNormMLP mlp(
          {.hidden = 12, .intermediate = 20, .activation_type = type, .recipe = recipe}, rng);
      Tape tape;
      const Variable y = mlp(test::random_tensor({5, 12}, 8));
      tape.backward(y, test::random_tensor(y.shape(), 9));
      std::vector<std::vector<std::uint8_t>> all{test::bytes_of(y.tensor())};
      for (const Variable& p : mlp.parameters()) all.push_back(test::bytes_of(p.grad()));
      return all;
    };
    CHECK(result(kOwnRelu) == result(relu));
    CHECK(result({kOwnRelu, Act::linear}) == result(reglu));
    CHECK(result(kSoftplus) != result(relu));
  }
}

TEST_CASE("make_activation: views, NaN and names") {
  for (const DType dtype : kComputeTypes) {
    test::check_views({test::random_tensor({4, 6}, 10, dtype)}, op_of({kSoftplus, Act::linear}));
  }
  const Tensor x = Tensor::full({3}, std::nan(""));
  CHECK(std::isnan(values_of(activation(x, kSoftplus).tensor())[2]));
  CHECK(to_string(kSoftplus) == "custom");
  CHECK(to_string(ActivationType{kSoftplus, Act::linear}) == "custom*linear");
  CHECK(ActivationType{kSoftplus} == ActivationType{kSoftplus});
  CHECK_FALSE(ActivationType{kSoftplus} == ActivationType{kSquare});
  check_throws<ShapeError>("activation",
                           [] {
                             (void)activation(Tensor::zeros({3}), {kSoftplus, Act::linear});
                           },
                           {"custom*linear", "3"});
}

TEST_CASE("make_activation: a derivative of whole numbers serves f64 as well") {
  const auto ramp =
      make_activation([](auto x) { return x > 0 ? x : 0; }, [](auto x) { return x > 0 ? 1 : 0; });
  const Variable x = parameter(Tensor::from({-1.0, 2.0}, {2}));
  Tape tape;
  const Variable y = activation(x, ramp);
  tape.backward(y, Tensor::from({3.0, 5.0}, {2}));
  CHECK(y.tensor().to_vector<double>() == std::vector<double>{0, 2});
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 5});
}

}  // namespace
}  // namespace tape8
