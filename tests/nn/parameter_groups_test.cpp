#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>
#include <tape8/nn/layernorm_mlp.hpp>
#include <tape8/nn/optimizer.hpp>

#include "support/expect.hpp"
#include "support/gradients.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::check_throws;
using test::give_gradient;
using test::Values;
using test::values_of;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_CASE("weight_decay_groups: matrices decay, vectors do not, all keep their order") {
  const Variable matrix = parameter(Tensor::zeros({2, 3}));
  const Variable row = parameter(Tensor::zeros({1, 3}));
  const Variable cube = parameter(Tensor::zeros({2, 3, 4}));
  const Variable vector = parameter(Tensor::zeros({3}));
  const Variable scalar = parameter(Tensor::zeros({}));
  const auto groups = weight_decay_groups({vector, matrix, scalar, row, cube});
  REQUIRE(groups.size() == 2);
  const auto same = [](const std::vector<Variable>& a, const std::vector<Variable>& b) {
    bool equal = a.size() == b.size();
    for (std::size_t i = 0; equal && i < a.size(); ++i) equal = a[i].state() == b[i].state();
    return equal;
  };
  CHECK(same(groups[0].parameters, {matrix, row, cube}));
  CHECK(same(groups[1].parameters, {vector, scalar}));
  CHECK_FALSE(groups[0].weight_decay.has_value());
  CHECK(groups[1].weight_decay == 0.0F);
  CHECK(groups[0].learning_rate_scale == 1.0F);
  CHECK(groups[1].learning_rate_scale == 1.0F);
}

/// One step without a gradient's pull: the weight decay alone.
template <class Opt, class Options>
std::vector<double> decayed(const std::vector<ParameterGroup>& groups, const Options& options) {
  Opt optimizer(groups, options);
  std::vector<double> after;
  for (const ParameterGroup& group : groups) {
    for (const Variable& p : group.parameters) give_gradient(p, Tensor::zeros(p.shape()));
  }
  optimizer.step();
  for (const ParameterGroup& group : groups) {
    for (const Variable& p : group.parameters) after.push_back(values_of(p.tensor())[0]);
  }
  return after;
}

TEST_CASE("parameter groups: a weight decay of one's own, and a scale of the learning rate") {
  const auto groups = [] {
    const auto one = [] { return parameter(Tensor::full({2, 2}, 1.0)); };
    return std::vector<ParameterGroup>{{.parameters = {one()}},
                                       {.parameters = {one()}, .weight_decay = 0.0F},
                                       {.parameters = {one()}, .weight_decay = 0.5F},
                                       {.parameters = {one()}, .learning_rate_scale = 0.25F},
                                       {.parameters = {one()}, .learning_rate_scale = 0.0F}};
  };
  // w - rate * decay * w, for both optimizers.
  const Values expected{1.0 - 0.1 * 0.2, 1.0, 1.0 - 0.1 * 0.5, 1.0 - 0.025 * 0.2, 1.0};
  const Values adamw =
      decayed<AdamW>(groups(), AdamWOptions{.learning_rate = 0.1F, .weight_decay = 0.2F});
  const Values sgd =
      decayed<SGD>(groups(), SGDOptions{.learning_rate = 0.1F, .weight_decay = 0.2F});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(adamw[i] == doctest::Approx(expected[i]).epsilon(1e-6));
    CHECK(sgd[i] == doctest::Approx(expected[i]).epsilon(1e-6));
  }
}

TEST_CASE("parameter groups: split or not, the same settings give the same bits") {
  const auto trained = [](bool split) {
    const Variable a = parameter(test::random_tensor({3, 5}, 1));
    const Variable b = parameter(test::random_tensor({7}, 2, DType::bf16));
    AdamW optimizer = split ? AdamW({ParameterGroup{.parameters = {a}},
                                     ParameterGroup{.parameters = {b}, .weight_decay = 0.3F}},
                                    AdamWOptions{.weight_decay = 0.3F})
                            : AdamW({a, b}, {.weight_decay = 0.3F});
    for (std::uint64_t step = 0; step < 5; ++step) {
      give_gradient(a, test::random_tensor({3, 5}, 10 + step));
      give_gradient(b, test::random_tensor({7}, 20 + step, DType::bf16));
      optimizer.step();
      optimizer.zero_grad();
      CHECK_FALSE(a.grad().defined());
      CHECK_FALSE(b.grad().defined());
    }
    CHECK(optimizer.steps() == 5);
    return std::vector{test::bytes_of(a.tensor()), test::bytes_of(b.tensor())};
  };
  CHECK(trained(true) == trained(false));
}

TEST_CASE("parameter groups: the learning rate is set for all, scaled in each") {
  const Variable a = parameter(Tensor::zeros({1}));
  const Variable b = parameter(Tensor::zeros({1}));
  SGD optimizer(std::vector<ParameterGroup>{{.parameters = {a}},
                                            {.parameters = {b}, .learning_rate_scale = 0.5F}});
  optimizer.set_learning_rate(0.25F);
  give_gradient(a, Tensor::full({1}, 1.0));
  give_gradient(b, Tensor::full({1}, 1.0));
  optimizer.step();
  CHECK(a.tensor().item<float>() == -0.25F);
  CHECK(b.tensor().item<float>() == -0.125F);
}

TEST_CASE("parameter groups: of a model, and one group that is empty") {
  Rng rng(1);
  const LayerNormMLP mlp({.hidden = 8, .intermediate = 12}, rng);
  const auto groups = weight_decay_groups(mlp.parameters());
  CHECK(groups[0].parameters.size() == 2);  // the kernels
  CHECK(groups[1].parameters.size() == 4);  // gamma, beta and two biases
  CHECK_NOTHROW(AdamW(groups, AdamWOptions{}));
  const Variable matrix = parameter(Tensor::full({2, 2}, 1.0));
  AdamW optimizer(weight_decay_groups({matrix}));
  give_gradient(matrix, Tensor::full({2, 2}, 1.0));
  optimizer.step();
  CHECK(values_of(matrix.tensor())[0] < 1.0);
}

TEST_CASE("parameter groups: refusals") {
  const Variable w = parameter(Tensor::zeros({1}));
  const Variable v = parameter(Tensor::zeros({1}));
  const auto adamw = [](const std::vector<ParameterGroup>& groups) {
    return [groups] { AdamW optimizer(groups, AdamWOptions{}); };
  };
  const auto sgd = [](const std::vector<ParameterGroup>& groups) {
    return [groups] { SGD optimizer(groups, SGDOptions{}); };
  };
  for (const float bad : {-0.1F, kNaN, kInfinity}) {
    check_throws<OptionError>("adamw", adamw({{.parameters = {w}, .weight_decay = bad}}),
                              {"weight_decay"});
    check_throws<OptionError>("sgd", sgd({{.parameters = {w}, .learning_rate_scale = bad}}),
                              {"learning_rate_scale"});
  }
  check_throws<OptionError>("adamw", adamw({{.parameters = {w}}, {.parameters = {v, w}}}),
                            {"parameters[2]", "once"});
  check_throws<OptionError>("adamw", adamw({{.parameters = {w}}, {.parameters = {Variable{}}}}),
                            {"parameters[1]", "none"});
  check_throws<OptionError>("sgd", sgd({}), {"parameters"});
  check_throws<OptionError>("sgd", sgd({{}, {}}), {"parameters"});
  const Variable strided = parameter(Tensor::zeros({2, 3}).transpose(0, 1));
  check_throws<OptionError>("sgd", sgd({{.parameters = {strided}}}),
                            {"parameters[0]", "contiguous"});
}

}  // namespace
}  // namespace tape8
