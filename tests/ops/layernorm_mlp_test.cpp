#include <array>
#include <vector>

#include <doctest/doctest.h>

#include "support/activation_reference.hpp"
#include "support/check_op.hpp"
#include "support/matrix.hpp"
#include "support/mlp_case.hpp"
#include "support/norm_reference.hpp"

namespace tape8 {
namespace {

using test::composed_mlp;
using test::fused_mlp;
using test::MlpCase;
using test::Ran;
using test::Values;

constexpr std::array kNames{"x", "gamma", "beta", "kernel_1", "kernel_2", "bias_1", "bias_2"};

TEST_CASE("layernorm_mlp: value and every gradient against float64") {
  for (const ActivationType& type : {gelu, swiglu, squared_relu}) {
    for (const NormType norm_type : {NormType::layernorm, NormType::rmsnorm}) {
      for (const bool biases : {true, false}) {
        for (const DType dtype : {DType::f64, DType::f32}) {
          MlpCase c{.rows = 5, .hidden = 6, .intermediate = 7, .dtype = dtype, .biases = biases};
          c.beta = biases && norm_type == NormType::layernorm;
          const LayerNormMLPOptions options{.norm_type = norm_type,
                                            .zero_centered_gamma = biases,
                                            .epsilon = 1e-3F,
                                            .activation_type = type};
          const auto forward = [&](const std::vector<Values>& v) {
            Values gamma = v[1];
            if (biases) {
              for (double& g : gamma) g += 1.0;
            }
            const test::NormCase norm{norm_type, static_cast<double>(1e-3F), c.rows, c.hidden};
            const std::int64_t wide = c.intermediate * type.count();
            Values z =
                test::matmul(test::norm(norm, v[0], gamma, v[2]), v[3], c.rows, c.hidden, wide);
            if (biases) test::add_to_rows(z, v[5]);
            Values y = test::matmul(test::activation(type, {}, z, c.rows, c.intermediate), v[4],
                                    c.rows, c.intermediate, c.hidden);
            if (biases) test::add_to_rows(y, v[6]);
            return y;
          };
          test::check_op(
              c.inputs(type), [&](const std::vector<Variable>& v) { return fused_mlp(v, options); },
              forward);
        }
      }
    }
  }
}

TEST_CASE("layernorm_mlp: equals its composition, bit for bit but for the order of one sum") {
  for (const ActivationType& type : {gelu, swiglu}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      CAPTURE(to_string(dtype));
      const MlpCase c{.rows = 70, .dtype = dtype};
      const LayerNormMLPOptions options{.activation_type = type};
      const Ran fused = test::run(
          c.inputs(type), [&](const std::vector<Variable>& v) { return fused_mlp(v, options); });
      const Ran composed = test::run(
          c.inputs(type), [&](const std::vector<Variable>& v) { return composed_mlp(v, options); });
      CHECK(test::bytes_of(fused.y) == test::bytes_of(composed.y));
      for (std::size_t i = 0; i < kNames.size(); ++i) {
        CAPTURE(kNames[i]);
        if (i == 5) {  // summed from f32 here, there from what was rounded to x's type
          test::check_close(fused.gradients[i], test::values_of(composed.gradients[i]),
                            test::tolerance(dtype));
        } else {
          CHECK(test::bytes_of(fused.gradients[i]) == test::bytes_of(composed.gradients[i]));
        }
      }
    }
  }
}

TEST_CASE("layernorm_mlp: kernel_1 may name its parts, and x may have any batch axes") {
  const MlpCase c{.rows = 12, .hidden = 8, .intermediate = 6};
  const LayerNormMLPOptions options{.activation_type = swiglu};
  std::vector<Tensor> inputs = c.inputs(swiglu);
  const auto op = [&](const std::vector<Variable>& v) { return fused_mlp(v, options); };
  const Ran flat = test::run(inputs, op);
  inputs[0] = inputs[0].reshape({2, 3, 2, 8});
  inputs[3] = inputs[3].reshape({8, 2, 6});
  inputs[5] = inputs[5].reshape({2, 6});
  const Ran named = test::run(inputs, op);
  CHECK(named.y.shape() == Shape{2, 3, 2, 8});
  CHECK(test::bytes_of(named.y) == test::bytes_of(flat.y));
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    CHECK(named.gradients[i].shape() == inputs[i].shape());
    CHECK(test::bytes_of(named.gradients[i]) == test::bytes_of(flat.gradients[i]));
  }
  inputs[0] = inputs[0].reshape({12, 8}).slice(0, 0, 1).reshape({8});
  CHECK(test::run(inputs, op).y.shape() == Shape{8});
}

TEST_CASE("layernorm_mlp: a gradient does not depend on which others are wanted") {
  const MlpCase c{};
  const std::vector<Tensor> inputs = c.inputs(swiglu);
  const auto run_with = [&](unsigned wanted) {
    std::vector<Variable> v;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      v.push_back(parameter(inputs[i]));
      v.back().set_requires_grad((wanted >> i & 1U) != 0);
    }
    Tape tape;
    const Variable y = fused_mlp(v, {.activation_type = swiglu});
    tape.backward(y, test::random_tensor(y.shape(), 9));
    return v;
  };
  const std::vector<Variable> all = run_with(127);
  for (unsigned wanted = 1; wanted < 127; ++wanted) {
    CAPTURE(wanted);
    const std::vector<Variable> some = run_with(wanted);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(kNames[i]);
      if ((wanted >> i & 1U) == 0) {
        CHECK(!some[i].grad().defined());
      } else {
        CHECK(test::bytes_of(some[i].grad()) == test::bytes_of(all[i].grad()));
      }
    }
  }
}

TEST_CASE("layernorm_mlp: views as inputs give what their copies give") {
  test::check_views(
      MlpCase{.rows = 4, .hidden = 5, .intermediate = 3}.inputs(swiglu),
      [](const std::vector<Variable>& v) { return fused_mlp(v, {.activation_type = swiglu}); });
}

TEST_CASE("layernorm_mlp: one node") {
  const MlpCase c{};
  Tape tape;
  std::vector<Variable> v;
  for (const Tensor& input : c.inputs(gelu)) v.push_back(parameter(input));
  (void)fused_mlp(v, {});
  CHECK(tape.size() == 1);
}

TEST_CASE("layernorm_mlp: bad arguments are refused by name before anything is computed") {
  const MlpCase c{.rows = 2, .hidden = 4, .intermediate = 3};
  const auto refused = [&]<class E>(const E*, std::size_t which, const Tensor& bad,
                                    std::initializer_list<std::string_view> parts,
                                    LayerNormMLPOptions options = {}) {
    options.activation_type = swiglu;
    std::vector<Variable> v;
    for (const Tensor& input : c.inputs(swiglu)) v.push_back(parameter(input));
    if (which < v.size()) v[which] = bad.defined() ? Variable(bad) : Variable{};
    Tape tape;
    test::check_throws<E>(
        "layernorm_mlp", [&] { (void)fused_mlp(v, options); }, parts);
    CHECK(tape.size() == 0);
  };
  const ShapeError* shape = nullptr;
  const DTypeError* dtype = nullptr;
  const OptionError* option = nullptr;
  refused(shape, 0, Tensor::zeros({2, 5}), {"kernel_1.shape[0] (hidden_in)", "4 and 5"});
  refused(shape, 1, Tensor::zeros({3}), {"gamma"});
  refused(shape, 2, Tensor::zeros({3}), {"beta"});
  refused(shape, 3, Tensor::zeros({4, 7}), {"kernel_1.shape[-1]", "2 parts", "7"});
  refused(shape, 3, Tensor::zeros({4, 3, 2}), {"kernel_1 must be", "n = 2", "(4, 3, 2)"});
  refused(shape, 3, Tensor::zeros({4}), {"kernel_1 must be", "(4)"});
  refused(shape, 4, Tensor::zeros({6, 4}), {"kernel_2.shape[0] (hidden_in)", "6 and 3"});
  refused(shape, 5, Tensor::zeros({3}), {"bias_1", "(6)", "(3)"});
  refused(shape, 6, Tensor::zeros({3}), {"bias_2", "(4)", "(3)"});
  refused(dtype, 0, Tensor::zeros({2, 4}, DType::i32), {"x", "i32"});
  refused(dtype, 3, Tensor::zeros({4, 6}, DType::e4m3), {"kernel_1", "e4m3"});
  refused(dtype, 4, Tensor::zeros({3, 4}, DType::u8), {"kernel_2", "u8"});
  refused(option, 0, {}, {"x must be given"});
  refused(option, 3, {}, {"kernel_1 must be given"});
  refused(option, 4, {}, {"kernel_2 must be given"});
  refused(option, 9, {}, {"beta must be none for rmsnorm"}, {.norm_type = NormType::rmsnorm});
  refused(option, 9, {}, {"epsilon"}, {.epsilon = -1.0F});
  refused(option, 9, {}, {"norm_input_axes"}, {.norm_input_axes = {"batch"}});
  refused(option, 9, {}, {"dot_1_input_axes"}, {.dot_1_input_axes = {"batch"}});
  refused(option, 9, {}, {"dot_2_input_axes"}, {.dot_2_input_axes = {"batch"}});
  refused(option, 9, {}, {"kernel_1_axes"}, {.kernel_1_axes = {"hidden"}});
  refused(option, 9, {}, {"kernel_2_axes"}, {.kernel_2_axes = {"hidden"}});
  refused(option, 9, {}, {"clamped_swiglu.limit"},
          {.activation_params = {.clamped_swiglu = {.limit = -1.0F}}});
}

}  // namespace
}  // namespace tape8
