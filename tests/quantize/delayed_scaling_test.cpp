#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/quantize/quantizer.hpp>

#include "support/expect.hpp"
#include "support/passes.hpp"

namespace tape8 {
namespace {

using test::pass;
using test::snapshot;

Quantizer delayed(const DelayedScaling& recipe, TensorRole role = TensorRole::x) {
  return make_quantizer(recipe, role);
}

/// The rule written down again: slot 0 takes the pass's amax, the scale is made, the slots move
/// down.
class Model {
 public:
  Model(std::size_t length, bool use_max, float largest, int margin)
      : history_(length, 0.0F), use_max_(use_max), largest_(largest), margin_(margin) {}

  void advance(float amax) {
    history_[0] = amax;
    const float basis = use_max_ ? *std::max_element(history_.begin(), history_.end()) : amax;
    if (basis > 0.0F) scale_ = largest_ / basis / std::exp2(static_cast<float>(margin_));
    for (std::size_t i = 0; i + 1 < history_.size(); ++i) history_[i] = history_[i + 1];
    history_.back() = amax;
    history_[0] = 0.0F;
  }

  float scale() const { return scale_; }
  const std::vector<float>& history() const { return history_; }

 private:
  std::vector<float> history_;
  bool use_max_;
  float largest_;
  int margin_;
  float scale_ = 1.0F;
};

TEST_CASE("delayed scaling: the worked example") {
  const Quantizer q = delayed({.amax_history_len = 3});
  const std::vector<float> amaxes{4, 2, 1, 1, 1};
  const std::vector<float> scales{1, 112, 112, 112, 224, 448};
  for (std::size_t i = 0; i < amaxes.size(); ++i) {
    CAPTURE(i);
    CHECK(q.scale() == Scale{scales[i]});
    pass(q, {amaxes[i]});
  }
  CHECK(q.scale() == Scale{scales.back()});
  CHECK(q.amax_history() == std::vector<float>{0, 1, 1});
}

TEST_CASE("delayed scaling: most_recent follows the last pass alone") {
  const Quantizer q =
      delayed({.amax_history_len = 3, .amax_compute_algo = AmaxComputeAlgo::most_recent});
  for (const float amax : {4.0F, 2.0F, 8.0F, 1.0F}) {
    pass(q, {amax});
    CHECK(q.scale() == Scale{448.0F / amax});
  }
  CHECK(q.amax_history() == std::vector<float>{0, 8, 1});
}

TEST_CASE("delayed scaling: the margin divides by a power of two") {
  for (const int margin : {-2, 0, 1, 3}) {
    CAPTURE(margin);
    const Quantizer q = delayed({.margin = margin, .amax_history_len = 4});
    CHECK(q.scale() == Scale{1.0F});
    pass(q, {7.0F});
    CHECK(q.scale() == Scale{64.0F * std::exp2(static_cast<float>(-margin))});
  }
}

TEST_CASE("delayed scaling: formats of the roles") {
  for (const TensorRole role : {TensorRole::x, TensorRole::kernel, TensorRole::dgrad}) {
    CAPTURE(to_string(role));
    const bool wide = role == TensorRole::dgrad;
    const Quantizer hybrid = delayed({.format = Fp8Format::hybrid}, role);
    const Quantizer e4m3 = delayed({.format = Fp8Format::e4m3}, role);
    CHECK(hybrid.dtype() == (wide ? DType::e5m2 : DType::e4m3));
    CHECK(e4m3.dtype() == DType::e4m3);
    pass(hybrid, {2.0F});
    pass(e4m3, {2.0F});
    CHECK(hybrid.scale() == Scale{wide ? 28672.0F : 224.0F});
    CHECK(e4m3.scale() == Scale{224.0F});
    CHECK(hybrid.role() == role);
  }
}

TEST_CASE("delayed scaling: a history of one") {
  const Quantizer q = delayed({.amax_history_len = 1});
  for (const float amax : {4.0F, 2.0F, 16.0F}) {
    pass(q, {amax});
    CHECK(q.scale() == Scale{448.0F / amax});
    CHECK(q.amax_history() == std::vector<float>{0});
  }
}

TEST_CASE("delayed scaling: equals the rule over many passes, bit for bit") {
  for (const std::int64_t length : {1, 2, 5, 16}) {
    for (const auto algo : {AmaxComputeAlgo::max, AmaxComputeAlgo::most_recent}) {
      for (const TensorRole role : {TensorRole::x, TensorRole::dgrad}) {
        CAPTURE(length);
        CAPTURE(to_string(role));
        const Quantizer q =
            delayed({.margin = 1, .amax_history_len = length, .amax_compute_algo = algo}, role);
        Model model(static_cast<std::size_t>(length), algo == AmaxComputeAlgo::max,
                    role == TensorRole::dgrad ? 57344.0F : 448.0F, 1);
        bool equal = true;
        for (const double value : test::random_values(40, 11, 0.6, 9.0)) {
          const auto amax = static_cast<float>(value);
          pass(q, {amax});
          model.advance(amax);
          equal = equal && q.scale().value == model.scale() && q.amax_history() == model.history();
        }
        CHECK(equal);
      }
    }
  }
}

TEST_CASE("delayed scaling: a pass notes the largest of its casts") {
  const Quantizer q = delayed({.amax_history_len = 3});
  pass(q, {2.0F, 8.0F, 4.0F});
  CHECK(q.amax_history() == std::vector<float>{0, 0, 8});
  CHECK(q.scale() == Scale{56.0F});
}

TEST_CASE("delayed scaling: a tiny amax gives the largest float, and zeros stay zeros") {
  for (const TensorRole role : {TensorRole::x, TensorRole::dgrad}) {
    const Quantizer q = delayed({.amax_history_len = 2}, role);
    const Variable w = parameter(Tensor::full({1}, 1.0));
    for (const float amax : {1e-38F, FLT_TRUE_MIN}) {
      CAPTURE(amax);
      Tape tape;
      (void)q.quantize(Tensor::from({0.0F, -0.0F, amax}, {3}));
      tape.backward(test::sum(w));
    }
    CHECK(q.scale() == Scale{FLT_MAX});
    const QuantizedTensor cast = q.quantize(Tensor::from({0.0F, -0.0F, 1.0F, -1.0F}, {4}));
    const auto values = test::values_of(cast.rowwise().data);
    const double largest = q.dtype() == DType::e5m2 ? 57344.0 : 448.0;
    CHECK(values == test::Values{0.0, 0.0, largest, -largest});
    const auto decoded = test::values_of(cast.dequantize());
    CHECK(decoded[0] == 0.0);
    CHECK(decoded[1] == 0.0);
    CHECK(std::isfinite(decoded[2]));
  }
}

TEST_CASE("delayed scaling: an amax that is not finite leaves no trace but a count") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Quantizer q = delayed({.amax_history_len = 3});
  pass(q, {4.0F});
  pass(q, {2.0F});
  const auto before = snapshot(q);
  CHECK(before.non_finite_passes == 0);
  pass(q, {kNaN});
  pass(q, {kInfinity});
  pass(q, {1.0F, kNaN, 2.0F});  // one of several casts taints the pass
  pass(q, {kNaN, 1.0F});
  CHECK(q.scale() == before.scale);
  CHECK(q.amax_history() == before.amax_history);
  CHECK(q.non_finite_passes() == 4);
  pass(q, {8.0F});
  CHECK(q.scale() == Scale{56.0F});
  CHECK(q.non_finite_passes() == 4);
}

TEST_CASE("delayed scaling: an amax of zero keeps the scale") {
  for (const auto algo : {AmaxComputeAlgo::max, AmaxComputeAlgo::most_recent}) {
    const Quantizer q = delayed({.amax_history_len = 2, .amax_compute_algo = algo});
    const Variable w = parameter(Tensor::full({1}, 1.0));
    pass(q, {4.0F});
    for (int i = 0; i < 4; ++i) {
      Tape tape;
      (void)q.quantize(Tensor::zeros({5}));
      tape.backward(test::sum(w));
      CHECK(q.scale() == Scale{112.0F});
    }
    CHECK(q.amax_history() == std::vector<float>{0, 0});
    CHECK(q.non_finite_passes() == 0);
  }
}

TEST_CASE("delayed scaling: a pass without a cast, or of no elements, does not roll") {
  const Quantizer q = delayed({.amax_history_len = 3});
  pass(q, {4.0F});
  const auto before = snapshot(q);
  pass(q, {});
  const Variable w = parameter(Tensor::full({1}, 1.0));
  for (const Shape& shape : {Shape{0}, Shape{0, 7}, Shape{7, 0}}) {
    Tape tape;
    const QuantizedTensor cast = q.quantize(Tensor::zeros(shape));
    CHECK(cast.shape() == shape);
    CHECK(cast.dequantize().shape() == shape);
    tape.backward(test::sum(w));
  }
  CHECK(snapshot(q) == before);
}

TEST_CASE("delayed scaling: microbatches advance once, with the largest amax of all") {
  const Quantizer q = delayed({.amax_history_len = 3});
  pass(q, {4.0F});
  const auto before = snapshot(q);
  pass(q, {2.0F}, {.advance_quantizers = false});
  pass(q, {8.0F}, {.advance_quantizers = false});
  CHECK(snapshot(q) == before);
  pass(q, {1.0F});
  CHECK(q.amax_history() == std::vector<float>{0, 4, 8});
  CHECK(q.scale() == Scale{56.0F});
  pass(q, {1.0F});
  CHECK(q.amax_history() == std::vector<float>{0, 8, 1});
}

}  // namespace
}  // namespace tape8
