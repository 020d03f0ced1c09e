#include <cfloat>
#include <cmath>

#include "cuda/both_backends.hpp"

namespace tape8::test {
namespace {

struct Case {
  DType format;
  std::vector<double> amaxes;
  int margin;
  bool power_of_2;
  std::int64_t history_length;  // 0: none
  bool most_recent;
  bool has_previous;
};

/// What one update reads and writes.
struct State {
  Case c;
  Pair amaxes, history, counter, previous, scale, scale_inv;

  explicit State(const Case& each)
      : c(each),
        amaxes(
            Tensor::from(each.amaxes, {static_cast<std::int64_t>(each.amaxes.size())}, DType::f32)),
        history(random_tensor({each.history_length}, 9, DType::f32, 0.0, 100.0)),
        counter(Tensor::full({1}, 5.0, DType::i64)),
        previous(Tensor::full({1}, 3.0, DType::f32)),
        scale(results({1}, DType::f32)),
        scale_inv(results({1}, DType::f32)) {}

  bool equal() const {
    return history.equal() && counter.equal() && scale.equal() && scale_inv.equal();
  }
};

TEST_CASE("cuda: many scales are updated as on the CPU, to the bit") {
  std::vector<Case> cases;
  for (const std::vector<double>& amaxes : {std::vector<double>{3.0},
                                            {0.0},
                                            {std::nan("")},
                                            {INFINITY},
                                            {1e-42},
                                            {FLT_MAX, 1.0},
                                            {1.0, 2.0, std::nan(""), 4.0},
                                            {1.0, 250.0, 7.0},
                                            {},
                                            std::vector<double>(700, 0.5)}) {
    for (const std::int64_t length : {0, 1, 2, 3, 128, 129, 1000}) {
      for (const int margin : {0, 3, -140, 140}) {
        const std::size_t i = cases.size();
        cases.push_back({i % 2 == 0 ? DType::e4m3 : DType::e5m2, amaxes, margin, i % 3 == 0, length,
                         i % 5 == 0, i % 4 != 0});
      }
    }
  }
  std::vector<State> states;
  for (const Case& c : cases) states.emplace_back(c);

  on_both([&](Backend& kernels, Device device) {
    std::vector<std::vector<const Amax*>> amaxes;
    std::vector<ScaleUpdate> updates;
    for (State& s : states) {
      std::vector<const Amax*>& own = amaxes.emplace_back();
      for (std::size_t i = 0; i < s.c.amaxes.size(); ++i) {
        own.push_back(s.amaxes.data<Amax>(device) + i);
      }
    }
    for (std::size_t i = 0; i < states.size(); ++i) {
      State& s = states[i];
      const bool delayed = s.c.history_length > 0;
      updates.push_back(
          {.format = s.c.format,
           .amaxes = amaxes[i],
           .margin = s.c.margin,
           .power_of_2_scale = s.c.power_of_2,
           .amax_history = delayed ? s.history.data<float>(device) : nullptr,
           .amax_history_length = s.c.history_length,
           .most_recent = s.c.most_recent,
           .non_finite_passes = delayed ? s.counter.data<std::int64_t>(device) : nullptr,
           .previous = s.c.has_previous ? s.previous.data<Scale>(device) : nullptr,
           .scale = s.scale.data<Scale>(device),
           .scale_inv = s.scale_inv.data<ScaleInv>(device)});
    }
    kernels.update_scales({updates});
  });
  for (std::size_t i = 0; i < states.size(); ++i) {
    CAPTURE(i);
    CHECK(states[i].equal());
  }
}

// NUMERICS: history length 3, max, e4m3, one cast a pass, amax 4 2 1 1 1.
TEST_CASE("cuda: the scales of a delayed quantizer, pass by pass") {
  Pair amax = results({1}, DType::f32), history(Tensor::full({3}, 0.0, DType::f32));
  Pair scale(Tensor::full({1}, 1.0, DType::f32)), scale_inv(Tensor::full({1}, 1.0, DType::f32));
  Pair counter(Tensor::full({1}, 0.0, DType::i64));
  const Values amaxes = {4, 2, 1, 1, 1}, scales = {112, 112, 112, 224, 448};
  for (std::size_t pass = 0; pass < amaxes.size(); ++pass) {
    amax.gpu.fill(amaxes[pass]);
    const Amax* const list[] = {amax.data<Amax>(kGpu)};
    const ScaleUpdate update{.amaxes = list,
                             .amax_history = history.data<float>(kGpu),
                             .amax_history_length = 3,
                             .non_finite_passes = counter.data<std::int64_t>(kGpu),
                             .previous = scale.data<Scale>(kGpu),
                             .scale = scale.data<Scale>(kGpu),
                             .scale_inv = scale_inv.data<ScaleInv>(kGpu)};
    gpu_backend().update_scales({{&update, 1}});
    CHECK(scale.gpu.item<double>() == scales[pass]);
  }
}

}  // namespace
}  // namespace tape8::test
