#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>
#include <tape8/nn/optimizer.hpp>
#include <tape8/ops/reshape.hpp>

#include "support/expect.hpp"
#include "support/float_table.hpp"
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

/// The published update in float64.
struct AdamWModel {
  AdamWOptions options;
  Values weight, m, v;
  int steps = 0;

  void step(const Values& gradient) {
    m.resize(weight.size());
    v.resize(weight.size());
    ++steps;
    const auto beta1 = static_cast<double>(options.beta1);
    const auto beta2 = static_cast<double>(options.beta2);
    const auto rate = static_cast<double>(options.learning_rate);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      m[i] = beta1 * m[i] + (1.0 - beta1) * gradient[i];
      v[i] = beta2 * v[i] + (1.0 - beta2) * gradient[i] * gradient[i];
      const double m_hat = m[i] / (1.0 - std::pow(beta1, steps));
      const double v_hat = v[i] / (1.0 - std::pow(beta2, steps));
      const double decay = static_cast<double>(options.weight_decay) * weight[i];
      weight[i] -=
          rate * (m_hat / (std::sqrt(v_hat) + static_cast<double>(options.epsilon)) + decay);
    }
  }
};

struct SgdModel {
  SGDOptions options;
  Values weight, velocity;

  void step(const Values& gradient) {
    velocity.resize(weight.size());
    const auto momentum = static_cast<double>(options.momentum);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const double g = gradient[i] + static_cast<double>(options.weight_decay) * weight[i];
      velocity[i] = momentum * velocity[i] + g;
      const double direction = options.nesterov ? g + momentum * velocity[i] : velocity[i];
      weight[i] -= static_cast<double>(options.learning_rate) * direction;
    }
  }
};

/// Runs optimizer and model side by side; the f32 updates of 20 steps stay within 1e-5 of float64,
/// and a parameter in 16 bits is its master rounded.
template <class Opt, class Options, class Model>
void check_optimizer(const Options& options, const Model& fresh) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{33, 17}}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(shape));
      const Variable w = parameter(test::random_tensor(shape, 1, dtype));
      Model model = fresh;
      model.weight = values_of(w.tensor());
      Opt optimizer({w}, options);
      for (std::uint64_t step = 0; step < 20; ++step) {
        const Tensor gradient = test::random_tensor(shape, 50 + step, dtype);
        give_gradient(w, gradient);
        model.step(values_of(gradient));
        optimizer.step();
        optimizer.zero_grad();
      }
      CHECK(optimizer.steps() == 20);
      CHECK(w.dtype() == dtype);
      check_close(w.tensor(), model.weight);
    }
  }
}

TEST_CASE("optimizer: AdamW against the published update in float64") {
  for (const AdamWOptions& options :
       {AdamWOptions{}, AdamWOptions{.learning_rate = 0.05F, .weight_decay = 0.0F},
        AdamWOptions{.learning_rate = 0.02F,
        .beta1 = 0.5F,
        .beta2 = 0.7F,
        .epsilon = 1e-3F,
        .weight_decay = 0.3F},
        AdamWOptions{.learning_rate = 0.01F, .beta1 = 0.0F, .beta2 = 0.0F}}) {
    CAPTURE(options.learning_rate);
    CAPTURE(options.beta1);
    check_optimizer<AdamW>(options, AdamWModel{options});
  }
}

TEST_CASE("optimizer: SGD against the rule in float64") {
  for (const SGDOptions& options :
       {SGDOptions{}, SGDOptions{.momentum = 0.9F}, SGDOptions{.weight_decay = 0.1F},
        SGDOptions{
            .learning_rate = 0.05F, .momentum = 0.8F, .weight_decay = 0.02F, .nesterov = true}}) {
    CAPTURE(options.momentum);
    CAPTURE(options.nesterov);
    check_optimizer<SGD>(options, SgdModel{options});
  }
}

TEST_CASE("optimizer: masters keep what bf16 cannot") {
  // Each step moves 1 by an eighth of a bf16 ulp: lost one by one, a tenth in all.
  const Variable w = parameter(Tensor::full({4}, 1.0, DType::bf16));
  SGD optimizer({w}, {.learning_rate = 1e-3F});
  for (int step = 0; step < 100; ++step) {
    give_gradient(w, Tensor::full({4}, 1.0, DType::bf16));
    optimizer.step();
    optimizer.zero_grad();
  }
  CHECK(values_of(w.tensor()) == test::rounded(Values(4, 0.9), DType::bf16));
}

TEST_CASE("optimizer: first steps of AdamW are the learning rate, whatever the gradient's size") {
  for (const double size : {1e-4, 1.0, 1e4}) {
    CAPTURE(size);
    const Variable w = parameter(Tensor::zeros({3}));
    AdamW optimizer({w}, {.learning_rate = 0.01F, .epsilon = 1e-12F, .weight_decay = 0.0F});
    give_gradient(w, Tensor::full({3}, size));
    optimizer.step();
    check_close(w.tensor(), Values(3, -0.01));
  }
}

TEST_CASE("optimizer: a parameter without a gradient stays, the others move") {
  const Variable moved = parameter(Tensor::full({3}, 1.0));
  const Variable idle = parameter(Tensor::full({3}, 1.0));
  AdamW optimizer({moved, idle}, {.weight_decay = 0.5F});
  give_gradient(moved, Tensor::full({3}, 1.0));
  const auto before = idle.tensor().version();
  optimizer.step();
  CHECK(values_of(idle.tensor()) == Values(3, 1.0));
  CHECK(idle.tensor().version() == before);
  CHECK(values_of(moved.tensor())[0] < 1.0);
}

TEST_CASE("optimizer: a step changes the memory, so what was saved of it is refused") {
  const Variable w = parameter(Tensor::full({3}, 1.0, DType::bf16));
  SGD optimizer({w}, {});
  give_gradient(w, Tensor::full({3}, 1.0, DType::bf16));
  const auto before = w.tensor().version();
  const Tensor handle = w.tensor();
  optimizer.step();
  CHECK(w.tensor().version() > before);
  CHECK(w.tensor().shares_storage(handle));
}

TEST_CASE("optimizer: zero_grad, and a learning rate that changes") {
  const Variable w = parameter(Tensor::full({1}, 1.0));
  SGD optimizer({w}, {.learning_rate = 0.5F});
  CHECK(optimizer.learning_rate() == 0.5F);
  give_gradient(w, Tensor::full({1}, 1.0));
  optimizer.step();
  CHECK(w.tensor().item<float>() == 0.5F);
  optimizer.set_learning_rate(0.25F);
  optimizer.step();
  CHECK(w.tensor().item<float>() == 0.25F);
  optimizer.zero_grad();
  CHECK_FALSE(w.grad().defined());
  optimizer.step();
  CHECK(w.tensor().item<float>() == 0.25F);
  CHECK(optimizer.steps() == 3);
  optimizer.set_learning_rate(0.0F);
  for (const float bad : {-1e-3F, kNaN, kInfinity}) {
    check_throws<OptionError>("sgd", [&] { optimizer.set_learning_rate(bad); }, {"learning_rate"});
  }
  CHECK(optimizer.learning_rate() == 0.0F);
}

TEST_CASE("optimizer: no elements") {
  const Variable w = parameter(Tensor::zeros({0, 3}));
  AdamW optimizer({w}, {});
  give_gradient(w, Tensor::zeros({0, 3}));
  CHECK_NOTHROW(optimizer.step());
}

TEST_CASE("optimizer: options out of range") {
  const std::vector<Variable> w{parameter(Tensor::zeros({1}))};
  const auto adamw = [&](const AdamWOptions& options, std::string_view part) {
    CAPTURE(part);
    check_throws<OptionError>("adamw", [&] { AdamW(w, options); }, {part});
  };
  for (const float bad : {-1.0F, kNaN, kInfinity}) {
    adamw({.learning_rate = bad}, "learning_rate");
    adamw({.epsilon = bad}, "epsilon");
    adamw({.weight_decay = bad}, "weight_decay");
  }
  for (const float bad : {-0.1F, 1.0F, 1.5F, kNaN}) {
    adamw({.beta1 = bad}, "beta1");
    adamw({.beta2 = bad}, "beta2");
  }
  const auto sgd = [&](const SGDOptions& options, std::string_view part) {
    CAPTURE(part);
    check_throws<OptionError>("sgd", [&] { SGD(w, options); }, {part});
  };
  for (const float bad : {-1.0F, kNaN}) {
    sgd({.learning_rate = bad}, "learning_rate");
    sgd({.weight_decay = bad}, "weight_decay");
    sgd({.momentum = bad}, "momentum");
  }
  sgd({.momentum = 1.0F}, "momentum");
  sgd({.nesterov = true}, "nesterov");
}

TEST_CASE("optimizer: parameters that it cannot change") {
  check_throws<OptionError>("adamw", [] { AdamW(std::vector<Variable>{}); }, {"parameters"});
  check_throws<OptionError>("sgd", [] { SGD(std::vector<Variable>{}); }, {"parameters"});
  const Variable w = parameter(Tensor::zeros({1}));
  check_throws<OptionError>("adamw", [&] { AdamW({w, Variable{}}); }, {"parameters[1]", "none"});
  check_throws<DTypeError>("sgd", [&] { SGD({parameter(Tensor::zeros({1}, DType::f64))}); },
                           {"f64"});
  Tape tape;
  const Variable result = reshape(w, {1, 1});
  check_throws<OptionError>("adamw", [&] { AdamW({result}); }, {"parameters[0]"});
}

TEST_CASE("optimizer: a parameter named twice would take two steps") {
  const Variable w = parameter(Tensor::zeros({1}));
  check_throws<OptionError>("adamw", [&] { AdamW({w, w}); }, {"parameters[1]"});
}

TEST_CASE("optimizer: a 16-bit parameter that is loaded anew is its own master again") {
  for (const bool use_adamw : {false, true}) {
    CAPTURE(use_adamw);
    const Variable w = parameter(Tensor::full({2}, 1.0, DType::bf16));
    const auto step = [&](Optimizer& optimizer) {
      Tape tape;
      tape.backward(record("pass", {w}, w.tensor().clone(), NothingSaved{},
                           [](const NothingSaved&, Gradients& gradients) {
                             gradients.set(0, gradients.output().clone());
                           }),
                    Tensor::full({2}, 1.0, DType::bf16));
      optimizer.step();
      optimizer.zero_grad();
    };
    // Steps that bf16 alone would lose: the master keeps them.
    SGD sgd({w}, {.learning_rate = 1e-3F});
    AdamW adamw({w}, {.learning_rate = 1e-3F, .weight_decay = 0.0F});
    Optimizer& optimizer = use_adamw ? static_cast<Optimizer&>(adamw) : sgd;
    for (int i = 0; i < 8; ++i) step(optimizer);
    CHECK(w.tensor().to_vector<float>()[0] == doctest::Approx(0.992).epsilon(0.002));
    Tensor values = w.tensor();
    values.fill(5.0);
    step(optimizer);
    CHECK(w.tensor().to_vector<float>()[0] == 5.0F);  // less 1e-3, rounded
  }
}

}  // namespace
}  // namespace tape8
