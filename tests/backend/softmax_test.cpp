#include "backend/kernel_test.hpp"

namespace tape8::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Memory> run(const Memory& logits, DType dtype, const std::vector<std::int32_t>& labels,
                        std::int64_t classes, double dloss) {
  const DType stat = dtype == DType::f64 ? DType::f64 : DType::f32;
  const auto rows = static_cast<std::int64_t>(labels.size());
  return same_everywhere([&](Backend& backend) {
    Memory loss(stat, 1), logsumexp(stat, rows), dlogits(dtype, rows * classes);
    const Memory dloss_memory(stat, {dloss});
    Amax amax;
    backend.softmax_cross_entropy({.rows = rows,
                                   .classes = classes,
                                   .logits = logits.input(),
                                   .labels = labels.data(),
                                   .counted = rows,
                                   .loss = loss.data(),
                                   .logsumexp = logsumexp.data()});
    backend.softmax_cross_entropy_backward({.rows = rows,
                                            .classes = classes,
                                            .logits = logits.input(),
                                            .labels = labels.data(),
                                            .counted = rows,
                                            .logsumexp = logsumexp.data(),
                                            .dloss = dloss_memory.data(),
                                            .dlogits = dlogits.output(&amax)});
    return std::vector{loss, logsumexp, dlogits, amax_memory(amax)};
  });
}

void check(DType dtype, std::int64_t rows, std::int64_t classes, double deviation,
           double mean = 0.0) {
  CAPTURE(to_string(dtype));
  CAPTURE(rows);
  CAPTURE(classes);
  const Memory logits(dtype, random_values(rows * classes, 51, deviation, mean));
  std::vector<std::int32_t> labels;
  for (std::int64_t r = 0; r < rows; ++r) {
    labels.push_back(static_cast<std::int32_t>((r * 7 + classes - 1) % classes));
  }
  const double dloss = 1.5;
  double loss = 0.0, largest = 0.0;
  std::vector<double> logsumexp, dlogits;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto at = [&](std::int64_t c) { return logits[r * classes + c]; };
    double top = -kInf, sum = 0.0;
    for (std::int64_t c = 0; c < classes; ++c) top = std::max(top, at(c));
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(at(c) - top);
    const std::int32_t label = labels[static_cast<std::size_t>(r)];
    logsumexp.push_back(top + std::log(sum));
    loss += (top + std::log(sum) - at(label)) / static_cast<double>(rows);
    for (std::int64_t c = 0; c < classes; ++c) {
      const double gradient = std::exp(at(c) - top) / sum - (c == label ? 1.0 : 0.0);
      dlogits.push_back(gradient * dloss / static_cast<double>(rows));
      largest = std::max(largest, std::abs(dlogits.back()));
    }
  }
  const auto results = run(logits, dtype, labels, classes, dloss);
  const double statistics = dtype == DType::f64 ? 1e-11 : 1e-5;
  CHECK(relative_error(results[0], {loss}) < statistics);
  CHECK(relative_error(results[1], logsumexp) < statistics);
  CHECK(relative_error(results[2], dlogits) < (dtype == DType::f64 ? 1e-11 : tolerance(dtype)));
  CHECK(results[3][0] == doctest::Approx(largest).epsilon(1e-5));
}

TEST_CASE("softmax_cross_entropy: forward and backward against float64") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    check(dtype, 200, 10, 2.0);
    check(dtype, 65, 1000, 3.0);
    check(dtype, 3, 4099, 1.0);
    check(dtype, 1, 2, 1.0);
    check(dtype, 3, 17, 1.0);
  }
  check(DType::f32, 2, 9001, 1.0);
}

TEST_CASE("softmax_cross_entropy: large logits") {
  check(DType::f32, 50, 10, 2.0, 1e4);  // e^1e4 overflows; logsumexp itself has no digits to spare
  check(DType::f32, 50, 10, 2.0, -1e4);
  check(DType::f32, 50, 10, 200.0);
  check(DType::f64, 50, 10, 2.0, 1e4);
}

TEST_CASE("softmax_cross_entropy: masked classes, one class, no rows") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Memory masked(dtype, {0.0, -kInf, 0.0, -kInf, 1.0, -kInf});
    const auto results = run(masked, dtype, {2, 1}, 3, 1.0);
    CHECK(results[2][0] == doctest::Approx(0.25));
    CHECK(results[2][1] == 0.0);
    CHECK(results[2][2] == doctest::Approx(-0.25));
    CHECK(results[2][3] == 0.0);
    CHECK(results[2][5] == 0.0);
    CHECK(results[0][0] == doctest::Approx(std::log(2.0) / 2));

    const auto single = run(Memory(dtype, {3.0, -5.0}), dtype, {0, 0}, 1, 1.0);
    CHECK(single[0][0] == 0.0);
    CHECK(single[2].values() == std::vector<double>{0, 0});

    CHECK(run(Memory(dtype, std::int64_t{0}), dtype, {}, 4, 1.0)[0][0] == 0.0);
  }
}

TEST_CASE("softmax_cross_entropy: a NaN logit shows in the loss") {
  const Memory logits(DType::f32, {0.0, std::nan(""), 1.0, 2.0});
  const std::vector<std::int32_t> labels = {0};
  for (const cpu::Isa isa : cpu::available_isas()) {
    Memory loss(DType::f32, 1), logsumexp(DType::f32, 1);
    cpu::make_backend(isa)->softmax_cross_entropy({.rows = 1,
                                                   .classes = 4,
                                                   .logits = logits.input(),
                                                   .labels = labels.data(),
                                                   .counted = 1,
                                                   .loss = loss.data(),
                                                   .logsumexp = logsumexp.data()});
    CHECK(std::isnan(loss[0]));
  }
}

}  // namespace
}  // namespace tape8::test
