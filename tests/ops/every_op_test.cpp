#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/activation.hpp>
#include <tape8/ops/arithmetic.hpp>
#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm.hpp>
#include <tape8/ops/layernorm_dense.hpp>
#include <tape8/ops/matmul.hpp>
#include <tape8/ops/mse_loss.hpp>
#include <tape8/ops/reduce.hpp>
#include <tape8/ops/reshape.hpp>
#include <tape8/ops/softmax_cross_entropy.hpp>
#include <tape8/ops/transpose.hpp>

#include "support/activation_reference.hpp"
#include "support/check_op.hpp"
#include "support/matrix.hpp"
#include "support/norm_reference.hpp"

namespace tape8 {
namespace {

using test::Forward;
using test::Op;
using test::Values;

constexpr std::int64_t kRows = 4, kIn = 12, kOut = 5;

/// An op, the shapes of its inputs, and what it is in float64.
struct OpCase {
  std::string name;
  std::vector<Shape> shapes;
  Op op;
  Forward forward;
  /// Where 16-bit roundings add up or a sum cancels; the entry says why.
  double factor_16 = 1.0;
};

Values biased(Values y, const Values& bias) {
  test::add_to_rows(y, bias);
  return y;
}

Values norm_of(NormType type, bool zero_centered, const Values& x, Values gamma,
               const Values& beta) {
  for (double& value : gamma) value += zero_centered ? 1.0 : 0.0;
  return test::norm({type, static_cast<double>(1e-6F), kRows, kIn}, x, gamma, beta);
}

void add_dense(std::vector<OpCase>& cases) {
  cases.push_back(
      {"dense",
       {{kRows, kIn}, {kIn, kOut}, {kOut}},
       [](const auto& in) { return dense(in[0], in[1], in[2]); },
       [](const auto& in) { return biased(test::matmul(in[0], in[1], kRows, kIn, kOut), in[2]); }});
  cases.push_back({"matmul",
                   {{kRows, kIn}, {kIn, kOut}},
                   [](const auto& in) { return matmul(in[0], in[1]); },
                   [](const auto& in) { return test::matmul(in[0], in[1], kRows, kIn, kOut); }});
}

void add_norms(std::vector<OpCase>& cases) {
  for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
    for (const bool centered : {false, true}) {
      const bool has_beta = type == NormType::layernorm;
      const std::string name = std::string(to_string(type)) + (centered ? " zero-centred" : "");
      cases.push_back({name,
                       {{kRows, kIn}, {kIn}, {kIn}},
                       [=](const auto& in) {
                         return layernorm(in[0], in[1], has_beta ? in[2] : Variable{},
                                          {.norm_type = type, .zero_centered_gamma = centered});
                       },
                       [=](const auto& in) {
                         return norm_of(type, centered, in[0], in[1], has_beta ? in[2] : Values{});
                       }});
      // In 16 bits the norm's result, and the gradient that reaches it, are rounded on their way.
      cases.push_back(
          {name + " dense",
           {{kRows, kIn}, {kIn, kOut}, {kIn}, {kIn}, {kOut}},
           [=](const auto& in) {
             return layernorm_dense(in[0], in[1], in[2], has_beta ? in[3] : Variable{}, in[4],
                                    {.norm_type = type, .zero_centered_gamma = centered});
           },
           [=](const auto& in) {
             const Values z = norm_of(type, centered, in[0], in[2], has_beta ? in[3] : Values{});
             return biased(test::matmul(z, in[1], kRows, kIn, kOut), in[4]);
           },
           2.0});
      if (!has_beta) {
        cases[cases.size() - 2].shapes.pop_back();
        cases.back().shapes[3] = Shape{0};
      }
    }
  }
}

void add_activations(std::vector<OpCase>& cases) {
  for (const ActivationType& type :
       {linear, gelu, silu, sigmoid, relu, squared_relu, quick_gelu, geglu, glu, swiglu, reglu,
        qgeglu, sreglu, clamped_swiglu, ActivationType{Act::clamped_silu},
        ActivationType{Act::clamped_linear},
        ActivationType{Act::silu, Act::relu, Act::quick_gelu, Act::linear}}) {
    cases.push_back({to_string(type),
                     {{kRows, kIn}},
                     [type](const auto& in) { return activation(in[0], type); },
                     [type](const auto& in) {
                       return test::activation(type, {}, in[0], kRows, kIn / type.count());
                     }});
  }
}

template <class F>
Forward each(const F& f) {
  return [f](const std::vector<Values>& in) {
    Values y = in[0];
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = f(in[0][i], in.size() > 1 ? in[1][i] : 0.0);
    return y;
  };
}

double mean_of(const Values& values) {
  double total = 0.0;
  for (const double value : values) total += value;
  return total / static_cast<double>(values.size());
}

void add_elementwise(std::vector<OpCase>& cases) {
  const Shape x{kRows, kIn};
  cases.push_back(
      {"add", {x, x}, [](const auto& in) { return in[0] + in[1]; }, each([](double a, double b) {
         return a + b;
       })});
  cases.push_back(
      {"sub", {x, x}, [](const auto& in) { return in[0] - in[1]; }, each([](double a, double b) {
         return a - b;
       })});
  cases.push_back(
      {"mul", {x, x}, [](const auto& in) { return in[0] * in[1]; }, each([](double a, double b) {
         return a * b;
       })});
  cases.push_back(
      {"scale", {x}, [](const auto& in) { return in[0] * 0.7; }, each([](double a, double) {
         return a * 0.7;
       })});
  cases.push_back({"reshape",
                   {x},
                   [](const auto& in) {
                     return reshape(in[0], {kIn, kRows});
                   },
                   each([](double a, double) { return a; })});
  cases.push_back({"transpose",
                   {x},
                   [](const auto& in) { return transpose(in[0], 0, 1); },
                   [](const auto& in) { return test::transposed(in[0], kRows, kIn); }});
  cases.push_back({"mean",
                   {x},
                   [](const auto& in) { return mean(in[0]); },
                   [](const auto& in) { return Values{mean_of(in[0])}; }});
  cases.push_back({"sum over rows",
                   {x},
                   [](const auto& in) { return sum(in[0], 0); },
                   [](const auto& in) { return test::column_sums(in[0], kRows, kIn); }});
}

void add_losses(std::vector<OpCase>& cases) {
  const Shape x{kRows, kIn};
  cases.push_back({"mse_loss",
                   {x, x},
                   [](const auto& in) { return mse_loss(in[0], in[1]); },
                   [](const auto& in) {
                     return Values{
                         mean_of(each([](double a, double b) { return (a - b) * (a - b); })(in))};
                   }});
  cases.push_back({"softmax_cross_entropy",
                   {x},
                   [](const auto& in) {
                     return softmax_cross_entropy(
                         in[0], Tensor::from({std::int64_t{3}, std::int64_t{0}, std::int64_t{11},
                                              std::int64_t{7}},
                                             {kRows}));
                   },
                   [](const auto& in) {
                     constexpr std::array<std::size_t, kRows> kLabels{3, 0, 11, 7};
                     double loss = 0.0;
                     for (std::size_t row = 0; row < kLabels.size(); ++row) {
                       double total = 0.0;
                       for (std::size_t c = 0; c < kIn; ++c)
                         total += std::exp(in[0][row * kIn + c]);
                       loss += std::log(total) - in[0][row * kIn + kLabels[row]];
                     }
                     return Values{loss / static_cast<double>(kRows)};
                   }});
}

std::vector<OpCase> all_ops() {
  std::vector<OpCase> cases;
  add_dense(cases);
  add_norms(cases);
  add_activations(cases);
  add_elementwise(cases);
  add_losses(cases);
  return cases;
}

/// Inputs away from the kinks at 0 and +-7, where a difference would straddle them.
std::vector<Tensor> make_inputs(const OpCase& c, const std::function<DType(std::size_t)>& dtype) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    Values values = test::random_values(c.shapes[i].numel(), 30 + i, -1.5, 2.0);
    for (double& value : values) value += value < 0.0 ? -0.05 : 0.05;
    inputs.push_back(c.shapes[i].numel() == 0 ? Tensor{}
                                              : Tensor::from(values, c.shapes[i], dtype(i)));
  }
  return inputs;
}

TEST_CASE("every op in f64: the gradients equal central differences") {
  for (const OpCase& c : all_ops()) {
    CAPTURE(c.name);
    test::check_op(make_inputs(c, [](std::size_t) { return DType::f64; }), c.op, c.forward);
  }
}

TEST_CASE("every op in f16 and bf16, to a rounding of the type") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const OpCase& c : all_ops()) {
      CAPTURE(to_string(dtype));
      CAPTURE(c.name);
      test::check_op(make_inputs(c, [&](std::size_t) { return dtype; }), c.op, c.forward,
                     dtype == DType::f32 ? 1.0 : c.factor_16);
    }
  }
}

TEST_CASE("every op: views as inputs and as cotangent give the bits of their copies") {
  for (const DType dtype : test::kComputeTypes) {
    for (const OpCase& c : all_ops()) {
      CAPTURE(to_string(dtype));
      CAPTURE(c.name);
      test::check_views(make_inputs(c, [&](std::size_t) { return dtype; }), c.op);
    }
  }
}

TEST_CASE("dense, layernorm_dense: parameters of other types than x, each gradient of its own") {
  constexpr std::array kTypes{DType::f32, DType::bf16, DType::f16, DType::f64};
  for (const OpCase& c : all_ops()) {
    if (c.name.find("dense") == std::string::npos) continue;
    CAPTURE(c.name);
    for (std::size_t shift = 0; shift < kTypes.size(); ++shift) {
      CAPTURE(shift);
      const auto dtype = [&](std::size_t i) { return kTypes[(i + shift) % kTypes.size()]; };
      const std::vector<Tensor> inputs = make_inputs(c, dtype);
      const test::Ran ran = test::run(inputs, c.op);
      CHECK(ran.y.dtype() == dtype(0));
      // The kernel takes part in x's type, so that is what the reference reads.
      std::vector<Values> values = test::values_of_all(inputs);
      values[1] = test::values_of(inputs[1].to(dtype(0)));
      const double rounding = c.factor_16 * test::tolerance(dtype(0));
      test::check_close(ran.y, c.forward(values), rounding);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CAPTURE(i);
        if (!inputs[i].defined()) continue;
        CHECK(ran.gradients[i].dtype() == dtype(i));
        const double limit =
            std::max({rounding, test::tolerance(dtype(i)), test::gradient_tolerance(DType::f64)});
        test::check_close(ran.gradients[i],
                          test::difference_gradient(c.forward, values, i, test::values_of(ran.dy)),
                          limit);
      }
    }
  }
}

}  // namespace
}  // namespace tape8
