#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include <tape8/core/error.hpp>
#include <tape8/io/dataset.hpp>

namespace tape8 {
namespace {

/// n examples of 2x3 bytes; example i holds i, i + 1, ..., and its label is i.
Dataset counted(std::int64_t n, float divisor = 1.0F) {
  std::vector<std::int32_t> pixels;
  std::vector<std::int32_t> labels;
  for (std::int32_t i = 0; i < n; ++i) {
    for (std::int32_t j = 0; j < 6; ++j) pixels.push_back((i + j) % 256);
    labels.push_back(i);
  }
  return {.examples = Tensor::from(pixels, {n, 2, 3}, DType::u8),
          .labels = Tensor::from(labels, {n}),
          .classes = n,
          .divisor = divisor};
}

/// The labels of all batches, one after the other; checks each batch's form and pixels on the way.
std::vector<std::int32_t> walk(const Dataset& dataset, const BatchOptions& options, Rng& rng) {
  std::vector<std::int32_t> all;
  for (const auto& [examples, labels] : batches(dataset, options, rng)) {
    CHECK(examples.shape() == Shape{labels.numel(), 6});
    CHECK(examples.dtype() == options.dtype);
    CHECK(labels.dtype() == DType::i32);
    const std::vector<float> values = examples.to_vector<float>();
    const std::vector<std::int32_t> rows = labels.to_vector<std::int32_t>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto pixel = static_cast<float>((rows[i / 6] + static_cast<std::int32_t>(i % 6)) % 256);
      REQUIRE(values[i] == pixel / dataset.divisor);
    }
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST_CASE("batches: every epoch holds every example once, in a new order") {
  Rng rng{3};
  const std::vector<std::int32_t> order =
      walk(counted(10), {.batch_size = 4, .epochs = 3, .dtype = DType::f32}, rng);
  REQUIRE(order.size() == 30);
  std::set<std::vector<std::int32_t>> orders;
  for (auto epoch = order.begin(); epoch != order.end(); epoch += 10) {
    orders.insert({epoch, epoch + 10});
    CHECK(std::set<std::int32_t>(epoch, epoch + 10).size() == 10);
  }
  CHECK(orders.size() == 3);
}

TEST_CASE("batches: without shuffle the order is the dataset's") {
  Rng rng{3};
  std::vector<std::int32_t> twice{0, 1, 2, 3, 4, 0, 1, 2, 3, 4};
  CHECK(walk(counted(5), {.batch_size = 2, .epochs = 2, .shuffle = false}, rng) == twice);
}

TEST_CASE("batches: the last batch of an epoch may be short; count() counts them") {
  struct Case {
    std::int64_t n, size, expected;
  };
  for (const Case& c : {Case{10, 4, 3}, {8, 4, 2}, {3, 64, 1}, {0, 4, 0}, {7, 1, 7}}) {
    const std::int64_t n = c.n;
    const std::int64_t size = c.size;
    const std::int64_t expected = c.expected;
    CAPTURE(n);
    Rng rng{1};
    Batches all = batches(counted(n), {.batch_size = size, .epochs = 2}, rng);
    CHECK(all.count() == 2 * expected);
    std::vector<std::int64_t> sizes;
    for (const Batch& batch : all) sizes.push_back(batch.labels.numel());
    REQUIRE(sizes.size() == static_cast<std::size_t>(2 * expected));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool last = (static_cast<std::int64_t>(i) + 1) % expected == 0;
      CHECK(sizes[i] == (last ? n - (expected - 1) * size : size));
    }
  }
}

TEST_CASE("batches: the seed alone decides the order, and rng advances by one draw") {
  Rng a{7};
  Rng b{7};
  Rng c{8};
  const BatchOptions options{.batch_size = 8, .epochs = 2};
  const std::vector<std::int32_t> first = walk(counted(50), options, a);
  CHECK(first == walk(counted(50), options, b));
  CHECK(first != walk(counted(50), options, c));
  CHECK(first != walk(counted(50), options, a));
  CHECK(a.position() == 2);
}

TEST_CASE("batches: bytes are divided in f32 and rounded once to the type") {
  // All 256 bytes over a divisor that makes most quotients inexact.
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(to_string(dtype));
    Rng rng{1};
    Dataset dataset = counted(256, 255.0F);
    for (const auto& [examples, labels] :
         batches(dataset, {.batch_size = 256, .shuffle = false, .dtype = dtype}, rng)) {
      CHECK(examples.dtype() == dtype);
      std::vector<float> quotients;
      for (int i = 0; i < 256; ++i) {
        for (int j = 0; j < 6; ++j) quotients.push_back(static_cast<float>((i + j) % 256) / 255.0F);
      }
      const Tensor expected = Tensor::from(quotients, {256, 6}, dtype);
      CHECK(examples.to_vector<float>() == expected.to_vector<float>());
    }
  }
}

TEST_CASE("batches: float examples, also views") {
  const Tensor values = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  const Dataset dataset{.examples = values.transpose(0, 1),
                        .labels = Tensor::from<std::int32_t>({0, 1, 0}, {3}),
                        .classes = 2,
                        .divisor = 3.0F};
  Rng rng{1};
  for (const auto& [examples, labels] : batches(dataset, {.shuffle = false}, rng)) {
    CHECK(examples.to_vector<float>() ==
          std::vector<float>{1.0F / 3.0F, 4.0F / 3.0F, 2.0F / 3.0F, 5.0F / 3.0F, 1.0F, 2.0F});
  }
  CHECK(values.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("batches: a batch that is kept does not change, and neither does the dataset") {
  Rng rng{1};
  std::vector<Batch> kept;
  {
    Batches all = batches(counted(6), {.batch_size = 2, .shuffle = false}, rng);
    for (const Batch& batch : all) kept.push_back(batch);
  }
  REQUIRE(kept.size() == 3);
  CHECK(kept[0].labels.to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 1});
  CHECK(kept[0].examples.to_vector<float>()[6] == 1.0F);
  CHECK(kept[2].labels.to_vector<std::int32_t>() == std::vector<std::int32_t>{4, 5});
}

TEST_CASE("batches: what it refuses leaves the generator as it was") {
  Rng rng{5};
  const Dataset good = counted(4);
  CHECK_THROWS_AS(batches(good, {.batch_size = 0}, rng), OptionError);
  CHECK_THROWS_AS(batches(good, {.epochs = 0}, rng), OptionError);
  CHECK_THROWS_AS(batches(good, {.dtype = DType::e4m3}, rng), OptionError);
  for (const float divisor : {0.0F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    CHECK_THROWS_AS(batches(counted(4, divisor), {}, rng), OptionError);
  }
  Dataset bad = counted(4);
  bad.labels = Tensor::zeros({3}, DType::i32);
  CHECK_THROWS_AS(batches(bad, {}, rng), ShapeError);
  bad.labels = Tensor::zeros({4}, DType::i64);
  CHECK_THROWS_AS(batches(bad, {}, rng), DTypeError);
  CHECK_THROWS_AS(batches(Dataset{}, {}, rng), ShapeError);
  Dataset outside = counted(4);
  outside.classes = 3;
  CHECK_THROWS_AS(batches(outside, {}, rng), OptionError);
  CHECK_THROWS_AS(batches(good, {.batch_size = 1, .epochs = INT64_MAX}, rng), OptionError);
  CHECK(rng.position() == 0);
}

}  // namespace
}  // namespace tape8
