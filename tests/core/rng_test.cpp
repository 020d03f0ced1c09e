#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/rng.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::check_throws;
using test::Values;

struct Moments {
  double mean = 0.0, variance = 0.0, fourth = 0.0, lowest = 0.0, highest = 0.0;
};

Moments moments(const Values& values) {
  const auto n = static_cast<double>(values.size());
  Moments result;
  for (const double v : values) result.mean += v / n;
  for (const double v : values) {
    const double d = (v - result.mean) * (v - result.mean);
    result.variance += d / n;
    result.fourth += d * d / n;
  }
  result.lowest = *std::min_element(values.begin(), values.end());
  result.highest = *std::max_element(values.begin(), values.end());
  return result;
}

TEST_CASE("rng: philox gives the published answers") {
  using Block = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  CHECK(philox(0, {0, 0, 0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~std::uint64_t{0}, {kOnes, kOnes, kOnes, kOnes}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("rng: a seed and a position say it all") {
  Rng first(42);
  Rng second(42);
  CHECK(first.next() == second.next());
  CHECK(bytes_of(first.normal({7, 5}, 0.0F, 1.0F)) == bytes_of(second.normal({7, 5}, 0.0F, 1.0F)));
  CHECK(first.position() == second.position());

  Rng resumed(first.seed());
  resumed.set_position(first.position());
  CHECK(bytes_of(first.uniform({9}, 0.0F, 1.0F)) == bytes_of(resumed.uniform({9}, 0.0F, 1.0F)));
  CHECK(first.next() == resumed.next());
  CHECK(bytes_of(first.permutation(20)) == bytes_of(resumed.permutation(20)));

  Rng other(43);
  CHECK(bytes_of(Rng(42).uniform({9}, 0.0F, 1.0F)) != bytes_of(other.uniform({9}, 0.0F, 1.0F)));
}

TEST_CASE("rng: each tensor is one draw, and its element i does not depend on the size") {
  Rng rng(3);
  (void)rng.uniform({100}, 0.0F, 1.0F);
  CHECK(rng.position() == 1);
  (void)rng.normal({0}, 0.0F, 1.0F);
  CHECK(rng.position() == 2);
  const auto long_draw = Rng(5).normal({11}, 0.0F, 1.0F).to_vector<float>();
  const auto short_draw = Rng(5).normal({6}, 0.0F, 1.0F).to_vector<float>();
  CHECK(std::equal(short_draw.begin(), short_draw.end(), long_draw.begin()));
}

TEST_CASE("rng: split is independent and advances by one") {
  Rng rng(9);
  Rng a = rng.split();
  Rng b = rng.split();
  CHECK(rng.position() == 2);
  CHECK(a.seed() != b.seed());
  CHECK(a.next() != b.next());
}

TEST_CASE("rng: uniform moments") {
  constexpr std::int64_t kCount = 400000;
  const Moments m = moments(test::values_of(Rng(1).uniform({kCount}, -2.0F, 6.0F)));
  // Standard errors at this count: mean 0.0037, variance 0.0076; five of them.
  CHECK(m.mean == doctest::Approx(2.0).epsilon(0.01));
  CHECK(std::fabs(m.variance - 64.0 / 12.0) < 0.04);
  CHECK(m.lowest >= -2.0);
  CHECK(m.highest <= 6.0);
  CHECK(m.lowest < -1.999);
  CHECK(m.highest > 5.999);
}

TEST_CASE("rng: normal moments and tails") {
  constexpr std::int64_t kCount = 400000;
  const Moments m = moments(test::values_of(Rng(2).normal({kCount}, 1.0F, 2.0F)));
  // Standard errors: mean 0.0032, variance 0.009, fourth moment 0.25; five of them.
  CHECK(std::fabs(m.mean - 1.0) < 0.016);
  CHECK(std::fabs(m.variance - 4.0) < 0.045);
  CHECK(std::fabs(m.fourth - 48.0) < 1.3);
  CHECK(m.highest > 1.0 + 2.0 * 4.0);
  CHECK(m.lowest < 1.0 - 2.0 * 4.0);
}

TEST_CASE("rng: neighbours, lanes and draws do not move together") {
  constexpr std::int64_t kCount = 100000;
  Rng rng(4);
  const Values a = test::values_of(rng.normal({kCount}, 0.0F, 1.0F));
  const Values b = test::values_of(rng.normal({kCount}, 0.0F, 1.0F));
  const auto correlation = [](const Values& x, const Values& y, std::size_t shift) {
    double sum = 0.0;
    for (std::size_t i = 0; i + shift < x.size(); ++i) sum += x[i] * y[i + shift];
    return sum / static_cast<double>(x.size());
  };
  for (const std::size_t shift : {1U, 2U, 3U, 4U}) {
    CAPTURE(shift);
    CHECK(std::fabs(correlation(a, a, shift)) < 0.016);  // five standard errors
  }
  CHECK(std::fabs(correlation(a, b, 0)) < 0.016);
}

TEST_CASE("rng: results are rounded to the type asked for") {
  const Tensor wide = Rng(6).normal({64}, 0.0F, 1.0F);
  const Tensor narrow = Rng(6).normal({64}, 0.0F, 1.0F, DType::bf16);
  CHECK(narrow.dtype() == DType::bf16);
  CHECK(bytes_of(narrow) == bytes_of(wide.to(DType::bf16)));
}

TEST_CASE("rng: permutations hold every index once, in uniform order") {
  Rng rng(7);
  for (const std::int64_t n : {0, 1, 2, 1000}) {
    CAPTURE(n);
    const Tensor order = rng.permutation(n);
    CHECK(order.dtype() == DType::i64);
    auto sorted = order.to_vector<std::int64_t>();
    std::sort(sorted.begin(), sorted.end());
    bool complete = true;
    for (std::int64_t i = 0; i < n; ++i)
      complete = complete && sorted[static_cast<std::size_t>(i)] == i;
    CHECK(complete);
  }
  std::array<int, 6> counts{};
  for (int draw = 0; draw < 6000; ++draw) {
    const auto p = rng.permutation(3).to_vector<std::int64_t>();
    ++counts[static_cast<std::size_t>(p[0] * 2 + (p[1] > p[2] ? 1 : 0))];
  }
  for (const int count : counts) CHECK(std::abs(count - 1000) < 145);  // five standard errors
}

TEST_CASE("rng: below is unbiased and in range") {
  Rng rng(8);
  std::array<int, 5> counts{};
  for (int draw = 0; draw < 50000; ++draw) {
    const std::int64_t value = rng.below(5);
    REQUIRE(value >= 0);
    REQUIRE(value < 5);
    ++counts[static_cast<std::size_t>(value)];
  }
  for (const int count : counts) CHECK(std::abs(count - 10000) < 450);
  CHECK(rng.below(1) == 0);
  // Just above half of the range every second draw is rejected; keeping it would favour the low
  // half.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  int low = 0;
  for (int draw = 0; draw < 4000; ++draw) low += rng.below(kMost) < kMost / 2 ? 1 : 0;
  CHECK(std::abs(low - 2000) < 160);
}

TEST_CASE("rng: arguments out of range") {
  Rng rng(1);
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  check_throws<OptionError>("rng", [&] { rng.below(0); }, {"0"});
  check_throws<OptionError>("rng", [&] { rng.below(-1); });
  check_throws<OptionError>("rng", [&] { rng.uniform({2}, 1.0F, 0.0F); });
  check_throws<OptionError>("rng", [&] { rng.uniform({2}, 0.0F, kNaN); });
  check_throws<OptionError>("rng", [&] { rng.normal({2}, 0.0F, -1.0F); });
  check_throws<OptionError>("rng", [&] { rng.normal({2}, 0.0F, kNaN); });
  check_throws<OptionError>("rng", [&] { rng.permutation(-1); });
  CHECK(rng.position() == 0);
}

}  // namespace
}  // namespace tape8
