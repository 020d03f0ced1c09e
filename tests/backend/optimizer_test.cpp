#include <tape8/core/error.hpp>

#include "backend/kernel_test.hpp"

namespace tape8::test {
namespace {

constexpr std::int64_t kCounts[] = {1, 15, 16, 4097, 0, 50003};

std::vector<double> positive(std::vector<double> values) {
  for (double& value : values) value *= value;
  return values;
}

TEST_CASE("adamw: several tensors at once against float64, with the rounded copy") {
  const AdamWArgs numbers{.learning_rate = 0.01F,
                          .beta1 = 0.9F,
                          .beta2 = 0.95F,
                          .epsilon = 1e-8F,
                          .weight_decay = 0.1F,
                          .step = 3};
  for (const DType grad_type : {DType::f32, DType::bf16}) {
    std::vector<Memory> weights, grads, averages, squares;
    unsigned seed = 61;
    for (const std::int64_t count : kCounts) {
      weights.emplace_back(DType::f32, random_values(count, seed++));
      grads.emplace_back(grad_type, random_values(count, seed++));
      averages.emplace_back(DType::f32, random_values(count, seed++, 0.1));
      squares.emplace_back(DType::f32, positive(random_values(count, seed++)));
    }
    const auto results = same_everywhere([&](Backend& backend) {
      auto w = weights, m = averages, v = squares;
      std::vector<Memory> copies, out;
      for (const Memory& weight : weights) copies.emplace_back(DType::bf16, weight.count());
      std::vector<AdamWTensor> tensors;
      std::vector<Amax> amax(w.size(), Amax{9.0F});
      for (std::size_t i = 0; i < w.size(); ++i) {
        tensors.push_back({.count = w[i].count(),
                           .weight = w[i].as<float>(),
                           .grad = grads[i].input(),
                           .exp_avg = m[i].as<float>(),
                           .exp_avg_sq = v[i].as<float>(),
                           .copy = copies[i].output(&amax[i])});
      }
      AdamWArgs args = numbers;
      args.tensors = tensors;
      backend.adamw(args);
      for (std::size_t i = 0; i < w.size(); ++i) {
        CHECK(copies[i] == Memory(DType::bf16, w[i].values()));
        double largest = 0.0;
        for (const double value : w[i].values()) largest = std::max(largest, std::abs(value));
        CHECK(double{amax[i].value} == largest);
        out.insert(out.end(), {w[i], m[i], v[i]});
      }
      return out;
    });
    const double beta1 = numbers.beta1, beta2 = numbers.beta2;
    for (std::size_t t = 0; t < weights.size(); ++t) {
      std::vector<double> w_ref, m_ref, v_ref;
      for (std::int64_t i = 0; i < weights[t].count(); ++i) {
        const double w = weights[t][i], g = grads[t][i];
        const double m = beta1 * averages[t][i] + (1 - beta1) * g;
        const double v = beta2 * squares[t][i] + (1 - beta2) * g * g;
        const double c1 = 1 - std::pow(beta1, 3), c2 = 1 - std::pow(beta2, 3);
        const double step = m / c1 / (std::sqrt(v / c2) + double{numbers.epsilon}) +
                            double{numbers.weight_decay} * w;
        w_ref.push_back(w - double{numbers.learning_rate} * step);
        m_ref.push_back(m);
        v_ref.push_back(v);
      }
      CHECK(relative_error(results[3 * t], w_ref) < 1e-6);
      CHECK(relative_error(results[3 * t + 1], m_ref) < 1e-6);
      CHECK(relative_error(results[3 * t + 2], v_ref) < 1e-6);
    }
  }
}

TEST_CASE("sgd: plain, momentum, nesterov against float64") {
  for (const bool momentum : {false, true}) {
    for (const bool nesterov : {false, true}) {
      if (nesterov && !momentum) continue;
      CAPTURE(momentum);
      CAPTURE(nesterov);
      std::vector<Memory> weights, grads, velocities;
      unsigned seed = 71;
      for (const std::int64_t count : kCounts) {
        weights.emplace_back(DType::f32, random_values(count, seed++));
        grads.emplace_back(DType::bf16, random_values(count, seed++));
        velocities.emplace_back(DType::f32, random_values(count, seed++));
      }
      const SgdArgs numbers{.learning_rate = 0.1F,
                            .momentum = momentum ? 0.9F : 0.0F,
                            .weight_decay = 0.01F,
                            .nesterov = nesterov};
      const auto results = same_everywhere([&](Backend& backend) {
        auto w = weights, v = velocities;
        std::vector<SgdTensor> tensors;
        std::vector<Memory> copies, out;
        for (const Memory& weight : weights) copies.emplace_back(DType::f16, weight.count());
        for (std::size_t i = 0; i < w.size(); ++i) {
          tensors.push_back({.count = w[i].count(),
                             .weight = w[i].as<float>(),
                             .grad = grads[i].input(),
                             .velocity = momentum ? v[i].as<float>() : nullptr,
                             .copy = copies[i].output()});
        }
        SgdArgs args = numbers;
        args.tensors = tensors;
        backend.sgd(args);
        for (std::size_t i = 0; i < w.size(); ++i) {
          CHECK(copies[i] == Memory(DType::f16, w[i].values()));
          out.insert(out.end(), {w[i], v[i]});
        }
        return out;
      });
      for (std::size_t t = 0; t < weights.size(); ++t) {
        std::vector<double> w_ref, v_ref;
        for (std::int64_t i = 0; i < weights[t].count(); ++i) {
          const double w = weights[t][i];
          const double mu = numbers.momentum;
          const double g = grads[t][i] + double{numbers.weight_decay} * w;
          const double v = momentum ? mu * velocities[t][i] + g : velocities[t][i];
          const double step = !momentum ? g : nesterov ? g + mu * v : v;
          w_ref.push_back(w - double{numbers.learning_rate} * step);
          v_ref.push_back(v);
        }
        CHECK(relative_error(results[2 * t], w_ref) < 1e-6);
        CHECK(relative_error(results[2 * t + 1], v_ref) < 1e-6);
      }
    }
  }
}

TEST_CASE("adamw, sgd: a type that the kernels lack is refused before any tensor changes") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    const auto backend = cpu::make_backend(isa);
    Memory w(DType::f32, {1.0, 2.0}), m = w, v = w;
    const Memory grad(DType::f32, {1.0, 1.0}), before = w;
    SgdTensor good{.count = 2, .weight = w.as<float>(), .grad = grad.input()};
    SgdTensor bad = good;
    bad.grad.dtype = DType::i32;
    const SgdTensor sgd_tensors[] = {good, bad};
    CHECK_THROWS_AS(backend->sgd({.tensors = sgd_tensors, .learning_rate = 1.0F}),
                    UnsupportedError);
    const AdamWTensor adamw_tensors[] = {{.count = 2,
                                          .weight = w.as<float>(),
                                          .grad = {grad.data(), DType::e2m1},
                                          .exp_avg = m.as<float>(),
                                          .exp_avg_sq = v.as<float>()}};
    CHECK_THROWS_AS(backend->adamw({.tensors = adamw_tensors, .learning_rate = 1.0F}),
                    UnsupportedError);
    CHECK(w == before);
  }
}

}  // namespace
}  // namespace tape8::test
