#include <cfloat>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/quantize/quantizer.hpp>

#include "support/expect.hpp"
#include "support/passes.hpp"

namespace tape8 {
namespace {

using test::snapshot;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Quantizer with_history(std::int64_t length) {
  return make_quantizer(DelayedScaling{.amax_history_len = length}, TensorRole::x);
}

TEST_CASE("quantizer state: set_state is what the next cast and pass go on from") {
  Quantizer q = with_history(3);
  q.set_state(Scale{8.0F}, std::vector<float>{0, 5, 7});
  CHECK(q.scale() == Scale{8.0F});
  CHECK(q.amax_history() == std::vector<float>{0, 5, 7});
  CHECK(test::values_of(q.quantize(Tensor::full({1}, 2.0)).rowwise().data)[0] == 16.0);
  test::pass(q, {1.0F});
  CHECK(q.scale() == Scale{64.0F});
  CHECK(q.amax_history() == std::vector<float>{0, 7, 1});
}

TEST_CASE("quantizer state: a state saved and set again goes on bit for bit") {
  const Quantizer q = with_history(4);
  for (const float amax : {3.0F, 1.5F, 7.0F}) test::pass(q, {amax});
  Quantizer resumed = with_history(4);
  resumed.set_state(q.scale(), q.amax_history());
  for (const float amax : {0.9F, 11.0F, 0.6F, 0.7F}) {
    test::pass(q, {amax});
    test::pass(resumed, {amax});
    CHECK(snapshot(resumed) == snapshot(q));
  }
}

TEST_CASE("quantizer state: set_state refuses what it cannot go on from, and changes nothing") {
  Quantizer q = with_history(2);
  q.set_state(Scale{3.0F}, std::vector<float>{0, 1});
  const auto before = snapshot(q);
  const std::vector<float> good{0, 2};
  for (const float scale : {0.0F, -1.0F, kInfinity, kNaN, -0.0F}) {
    CAPTURE(scale);
    test::check_throws<OptionError>("set_state", [&] { q.set_state(Scale{scale}, good); },
                                    {"scale"});
  }
  const std::vector<std::vector<float>> histories{{},      {1},       {1, 2, 3},
                                                  {-1, 0}, {0, kNaN}, {kInfinity, 0}};
  for (const auto& history : histories) {
    test::check_throws<OptionError>("set_state", [&] { q.set_state(Scale{1.0F}, history); },
                                    {"amax_history"});
  }
  CHECK(snapshot(q) == before);
}

TEST_CASE("quantizer state: a scale whose inverse is not finite is refused") {
  Quantizer q = with_history(1);
  test::check_throws<OptionError>(
      "set_state", [&] { q.set_state(Scale{FLT_TRUE_MIN}, std::vector<float>{0.0F}); }, {"scale"});
}

TEST_CASE("quantizer state: margins and amaxes of any size leave zeros decodable") {
  for (const int margin : {-126, -40, 40, 126}) {
    for (const float amax : {1e-38F, 1e-20F, 1.0F, 1e20F, FLT_MAX}) {
      CAPTURE(margin);
      CAPTURE(amax);
      const Quantizer q =
          make_quantizer(DelayedScaling{.margin = margin, .amax_history_len = 1}, TensorRole::x);
      const Variable w = parameter(Tensor::full({1}, 1.0));
      Tape tape;
      (void)q.quantize(Tensor::full({2}, static_cast<double>(amax)));
      tape.backward(test::sum(w));
      CHECK(test::values_of(q.quantize(Tensor::zeros({3})).dequantize()) == test::Values(3, 0.0));
    }
  }
}

TEST_CASE("quantizer state: without a tape a cast changes nothing") {
  const Quantizer q = with_history(3);
  test::pass(q, {4.0F});
  const auto before = snapshot(q);
  for (const float value : {100.0F, kNaN, kInfinity, 0.0F}) {
    (void)q.quantize(Tensor::from({value, 1.0F}, {2}));
  }
  CHECK(snapshot(q) == before);
  test::pass(q, {2.0F});
  CHECK(q.amax_history() == std::vector<float>{0, 4, 2});
}

TEST_CASE("quantizer state: a tape that dies drops its notes") {
  const Quantizer q = with_history(3);
  test::pass(q, {4.0F});
  const auto before = snapshot(q);
  {
    Tape tape;
    (void)q.quantize(Tensor::full({2}, 1000.0));
  }
  CHECK(snapshot(q) == before);
  test::pass(q, {2.0F});
  CHECK(q.amax_history() == std::vector<float>{0, 4, 2});
}

TEST_CASE("quantizer state: a backward that throws drops its notes") {
  const Quantizer q = with_history(3);
  test::pass(q, {4.0F});
  const auto before = snapshot(q);
  const Variable w = parameter(Tensor::full({1}, 1.0));
  {
    Tape tape;
    (void)q.quantize(Tensor::full({2}, 1000.0));
    CHECK_THROWS_AS(tape.backward(test::sum(test::failing(w))), std::runtime_error);
  }
  CHECK(snapshot(q) == before);
  test::pass(q, {2.0F});
  CHECK(q.amax_history() == std::vector<float>{0, 4, 2});
}

TEST_CASE("quantizer state: nested tapes keep their notes apart") {
  const Quantizer q = with_history(3);
  const Variable w = parameter(Tensor::full({1}, 1.0));
  Tape outer;
  (void)q.quantize(Tensor::full({2}, 4.0));
  const Variable outer_loss = test::sum(w);
  {
    Tape inner;
    (void)q.quantize(Tensor::full({2}, 16.0));
    inner.backward(test::sum(w));
  }
  CHECK(q.amax_history() == std::vector<float>{0, 0, 16});
  (void)q.quantize(Tensor::full({2}, 2.0));
  outer.backward(outer_loss);
  CHECK(q.amax_history() == std::vector<float>{0, 16, 4});
}

}  // namespace
}  // namespace tape8
