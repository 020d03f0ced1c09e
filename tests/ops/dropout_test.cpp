#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/threads.hpp>
#include <tape8/ops/dropout.hpp>

#include "support/check_op.hpp"
#include "support/float_table.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::kComputeTypes;
using test::Ran;
using test::Values;
using test::values_of;

constexpr std::uint64_t kSeed = 17;

test::Op dropped(float rate, std::uint64_t position = 0) {
  return [=](const std::vector<Variable>& in) {
    Rng rng(kSeed);
    rng.set_position(position);
    return dropout(in[0], rate, rng);
  };
}

/// 1 where an element is kept.
std::vector<int> mask(const Shape& shape, float rate, DType dtype = DType::f32,
                      std::uint64_t position = 0) {
  std::vector<int> kept;
  for (const double v :
       values_of(dropped(rate, position)({Tensor::full(shape, 1.0, dtype)}).tensor()))
    kept.push_back(v != 0.0 ? 1 : 0);
  return kept;
}

TEST_CASE("dropout: what is kept is x / (1 - rate), and backward has the same mask") {
  for (const DType dtype : kComputeTypes) {
    for (const float rate : {0.25F, 0.3F, 0.9F}) {
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{767}, Shape{8, 33}, Shape{0, 5}}) {
        CAPTURE(to_string(dtype));
        CAPTURE(rate);
        CAPTURE(to_string(shape));
        const Tensor x = test::random_tensor(shape, 1, dtype, 0.5, 2.0);
        const Ran ran = test::run({x}, dropped(rate));
        CHECK(ran.y.shape() == shape);
        CHECK(ran.y.dtype() == dtype);
        CHECK(ran.gradients[0].dtype() == dtype);
        const std::vector<int> kept = mask(shape, rate);
        const auto masked = [&](const Values& values) {
          Values result(values.size());
          for (std::size_t i = 0; i < values.size(); ++i) {
            if (kept[i] != 0) result[i] = values[i] / (1.0 - static_cast<double>(rate));
          }
          return result;
        };
        test::check_close(ran.y, masked(values_of(x)));
        test::check_close(ran.gradients[0], masked(values_of(ran.dy)));
      }
    }
  }
}

TEST_CASE("dropout: rate 0 changes nothing but the generator's position") {
  for (const DType dtype : kComputeTypes) {
    const Tensor x = test::random_tensor({9, 31}, 2, dtype);
    const Ran ran = test::run({x}, dropped(0.0F));
    CHECK(test::bytes_of(ran.y) == test::bytes_of(x));
    CHECK(test::bytes_of(ran.gradients[0]) == test::bytes_of(ran.dy));
  }
  Rng rng(3);
  for (const float rate : {0.0F, 0.5F}) {
    const std::uint64_t before = rng.position();
    (void)dropout(Tensor::zeros({100, 100}), rate, rng);
    CHECK(rng.position() == before + 1);
  }
}

TEST_CASE("dropout: the kept share is 1 - rate, each element and each draw by itself") {
  constexpr std::int64_t kCount = 100000;
  for (const float rate : {0.1F, 0.5F, 0.9F}) {
    CAPTURE(rate);
    const double p = 1.0 - static_cast<double>(rate);
    const std::vector<int> first = mask({kCount}, rate);
    const std::vector<int> second = mask({kCount}, rate, DType::f32, 1);
    // Five standard deviations of a mean of independent draws.
    const auto near = [](double share, double expected) {
      return std::fabs(share - expected) <
             5.0 * std::sqrt(expected * (1.0 - expected) / static_cast<double>(kCount));
    };
    for (const std::size_t distance : {1U, 2U, 4U, 8U, 256U}) {
      CAPTURE(distance);
      double both = 0.0;
      for (std::size_t i = 0; i < first.size(); ++i) {
        both += first[i] * first[(i + distance) % first.size()];
      }
      CHECK(near(both / static_cast<double>(kCount), p * p));
    }
    double kept = 0.0;
    double in_both = 0.0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      kept += first[i];
      in_both += first[i] * second[i];
    }
    CHECK(near(kept / static_cast<double>(kCount), p));
    CHECK(near(in_both / static_cast<double>(kCount), p * p));
  }
}

TEST_CASE("dropout: the mask depends on draw and index alone") {
  const std::vector<int> expected = mask({96, 1024}, 0.4F);
  const int before = num_threads();
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    CHECK(mask({96, 1024}, 0.4F) == expected);
  }
  set_num_threads(before);
  for (const DType dtype : kComputeTypes) CHECK(mask({96, 1024}, 0.4F, dtype) == expected);
  CHECK(mask({1024, 96}, 0.4F) == expected);
  const std::vector<int> shorter = mask({1003}, 0.4F);
  CHECK(std::vector<int>(expected.begin(), expected.begin() + 1003) == shorter);
  CHECK(mask({96, 1024}, 0.4F, DType::f32, 1) != expected);
}

TEST_CASE("dropout: keeps nothing; views; what is dropped is 0 whatever it was") {
  CHECK(test::bytes_kept({test::random_tensor({64}, 1)}, dropped(0.5F)) == 0);
  for (const DType dtype : kComputeTypes) {
    test::check_views({test::random_tensor({7, 9}, 2, dtype)}, dropped(0.5F));
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    const std::vector<int> kept = mask({50}, 0.5F);
    const Values y = values_of(dropped(0.5F)({Tensor::full({50}, kNaN, dtype)}).tensor());
    for (std::size_t i = 0; i < y.size(); ++i)
      CHECK((kept[i] != 0 ? std::isnan(y[i]) : y[i] == 0.0));
  }
}

TEST_CASE("dropout: refusals leave the generator where it was") {
  Rng rng(1);
  const Tensor x = Tensor::zeros({3});
  for (const float bad : {-0.1F, 1.0F, 2.0F, std::numeric_limits<float>::quiet_NaN()}) {
    check_throws<OptionError>("dropout", [&] { (void)dropout(x, bad, rng); }, {"rate", "[0, 1)"});
  }
  check_throws<DTypeError>("dropout", [&] { (void)dropout(x.to(DType::i32), 0.5F, rng); },
                           {"x", "i32"});
  check_throws<OptionError>("dropout", [&] { (void)dropout(Variable{}, 0.5F, rng); },
                            {"x", "none"});
  CHECK(rng.position() == 0);
}

}  // namespace
}  // namespace tape8
