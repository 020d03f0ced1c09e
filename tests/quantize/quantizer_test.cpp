#include <vector>

#include <doctest/doctest.h>

#include <tape8/quantize/quantizer.hpp>

#include "support/expect.hpp"
#include "support/passes.hpp"

namespace tape8 {
namespace {

using test::check_throws;

TEST_CASE("quantizer: none passes tensors through and has no state") {
  Quantizer none;
  CHECK_FALSE(none.defined());
  CHECK_FALSE(static_cast<bool>(none));
  CHECK_FALSE(none.clone().defined());
  const Tensor x = test::random_tensor({3}, 1);
  const QuantizedTensor same = none.quantize(x);
  CHECK_FALSE(same.is_quantized());
  CHECK(same.rowwise().data.shares_storage(x));
  check_throws<StateError>("quantizer", [&] { (void)none.scale(); });
  check_throws<StateError>("quantizer", [&] { (void)none.amax_history(); });
  check_throws<StateError>("quantizer", [&] { (void)none.dtype(); });
  check_throws<StateError>("quantizer", [&] { (void)none.recipe(); });
  check_throws<StateError>("quantizer", [&] { (void)none.role(); });
  check_throws<StateError>("quantizer", [&] { (void)none.checkpoint_name(); });
  check_throws<StateError>("quantizer", [&] { (void)none.non_finite_passes(); });
  check_throws<StateError>("quantizer",
                           [&] { none.set_state(Scale{1.0F}, std::vector<float>{0.0F}); });
}

TEST_CASE("quantizer: high precision makes none") {
  CHECK_FALSE(make_quantizer(HighPrecision{}, TensorRole::x).defined());
  const QuantizerSet set = make_quantizer_set(HighPrecision{});
  CHECK_FALSE(set.x.defined());
  CHECK_FALSE(set.kernel.defined());
  CHECK_FALSE(set.dgrad.defined());
  CHECK_FALSE(set.clone().dgrad.defined());
  CHECK(to_string(Recipe{HighPrecision{}}) == "high_precision");
  CHECK(to_string(Recipe{DelayedScaling{}}) == "delayed");
}

TEST_CASE("quantizer: starts at scale 1 with an empty history of the default length") {
  const QuantizerSet set = make_quantizer_set(DelayedScaling{});
  CHECK(set.x.role() == TensorRole::x);
  CHECK(set.kernel.role() == TensorRole::kernel);
  CHECK(set.dgrad.role() == TensorRole::dgrad);
  for (const Quantizer& q : {set.x, set.kernel, set.dgrad}) {
    CHECK(q.scale() == Scale{1.0F});
    CHECK(q.amax_history() == std::vector<float>(1024, 0.0F));
    CHECK(q.non_finite_passes() == 0);
    CHECK(std::get<DelayedScaling>(q.recipe()).amax_history_len == 1024);
    CHECK(q.checkpoint_name().empty());
  }
  CHECK(Quantizer(DelayedScaling{}, TensorRole::x, "mlp.x").checkpoint_name() == "mlp.x");
}

TEST_CASE("quantizer: options out of range") {
  for (const std::int64_t length : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{INT64_MIN}}) {
    CAPTURE(length);
    const DelayedScaling recipe{.amax_history_len = length};
    check_throws<OptionError>("delayed_scaling", [&] { make_quantizer(recipe, TensorRole::x); },
                              {"amax_history_len"});
    check_throws<OptionError>("delayed_scaling", [&] { make_quantizer_set(recipe); });
    check_throws<OptionError>("delayed_scaling", [&] { Quantizer(recipe, TensorRole::dgrad); });
  }
  for (const int margin : {1000, -1000, INT32_MAX, INT32_MIN}) {
    CAPTURE(margin);
    check_throws<OptionError>(
        "delayed_scaling", [&] { make_quantizer(DelayedScaling{.margin = margin}, TensorRole::x); },
        {"margin"});
  }
}

TEST_CASE("quantizer: copies share state, clones start from it and go their own way") {
  const Quantizer q = make_quantizer(DelayedScaling{.amax_history_len = 3}, TensorRole::x);
  test::pass(q, {4.0F});
  const Quantizer copy = q;
  const Quantizer clone = q.clone();
  CHECK(copy == q);
  CHECK(clone != q);
  CHECK(clone.scale() == q.scale());
  CHECK(clone.amax_history() == q.amax_history());
  CHECK(clone.role() == q.role());

  test::pass(copy, {8.0F});
  CHECK(q.scale() == Scale{56.0F});
  CHECK(clone.scale() == Scale{112.0F});
  CHECK(clone.amax_history() == std::vector<float>{0, 0, 4});
  test::pass(clone, {16.0F});
  CHECK(q.scale() == Scale{56.0F});

  const QuantizerSet set = make_quantizer_set(DelayedScaling{.amax_history_len = 2});
  const QuantizerSet shared = set;
  const QuantizerSet apart = set.clone();
  test::pass(set.kernel, {2.0F});
  CHECK(shared.kernel.scale() == Scale{224.0F});
  CHECK(apart.kernel.scale() == Scale{1.0F});
}

}  // namespace
}  // namespace tape8
