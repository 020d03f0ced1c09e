#include <cmath>

#include "cuda/both_backends.hpp"

namespace tape8::test {
namespace {

struct Case {
  std::int64_t rows, classes;
  double smoothing, size;  // logits are in [-size, size]
};

struct Reference {
  double loss = 0.0;
  Values logsumexp, gradient;
  std::int64_t counted = 0;
};

Reference reference(const Case& c, const Values& logits, const std::vector<std::int32_t>& labels,
                    double dloss) {
  Reference result;
  for (const std::int32_t label : labels) result.counted += label >= 0 ? 1 : 0;
  const auto counted = static_cast<double>(std::max<std::int64_t>(result.counted, 1));
  const auto classes = static_cast<double>(c.classes);
  const auto smoothing = static_cast<double>(static_cast<float>(c.smoothing));
  for (std::size_t r = 0; r < labels.size(); ++r) {
    const double* row = logits.data() + r * static_cast<std::size_t>(c.classes);
    const double largest = *std::max_element(row, row + c.classes);
    double sum = 0.0, mean = 0.0;
    for (std::int64_t i = 0; i < c.classes; ++i) {
      sum += std::exp(row[i] - largest);
      mean += row[i] / classes;
    }
    const double log_sum = largest + std::log(sum);
    result.logsumexp.push_back(log_sum);
    const bool ignored = labels[r] < 0;
    if (!ignored) {
      result.loss += (log_sum - (1.0 - smoothing) * row[labels[r]] - smoothing * mean) / counted;
    }
    for (std::int64_t i = 0; i < c.classes; ++i) {
      const double target = (i == labels[r] ? 1.0 - smoothing : 0.0) + smoothing / classes;
      result.gradient.push_back(ignored ? 0.0
                                        : (std::exp(row[i] - log_sum) - target) * dloss / counted);
    }
  }
  return result;
}

TEST_CASE("cuda: softmax cross-entropy against float64 loops") {
  for (const DType dtype : kTypes) {
    for (const Case& c : {Case{5, 10, 0.0, 4.0}, Case{3, 1, 0.0, 4.0}, Case{7, 129, 0.1, 9.0},
                          Case{2, 5003, 0.2, 9.0}, Case{40, 33, 0.1, 300.0}, Case{0, 7, 0.0, 1.0},
                          Case{1, 70001, 0.0, 5.0}}) {
      CAPTURE(c.classes);
      const Tensor values = random_tensor({c.rows, c.classes}, 1, dtype, -c.size, c.size);
      std::vector<std::int32_t> labels(static_cast<std::size_t>(c.rows));
      for (std::size_t r = 0; r < labels.size(); ++r) {
        labels[r] = r % 3 == 2 ? kIgnoredLabel
                               : static_cast<std::int32_t>(r * 7919 % std::size_t(c.classes));
      }
      const Reference expected = reference(c, values_of(values), labels, 1.5);
      const DType stat = dtype == DType::f64 ? DType::f64 : DType::f32;
      // f32 logsumexp and exponentials; 300 leaves 1e-5 of an f32.
      const double limit = dtype == DType::f64 ? 1e-12 : 1e-5;

      const Pair logits(values);
      Pair targets(Tensor::from(labels, {c.rows}, DType::i32));
      Pair loss = results({1}, stat), logsumexp = results({c.rows}, stat);
      Pair dloss(Tensor::full({1}, 1.5, stat)), dlogits = results({c.rows, c.classes}, dtype);
      gpu_backend().softmax_cross_entropy({c.rows, c.classes, static_cast<float>(c.smoothing),
                                           logits.input(kGpu), targets.data<std::int32_t>(kGpu),
                                           expected.counted, loss.data(kGpu),
                                           logsumexp.data(kGpu)});
      CHECK(relative_error(values_of(loss.gpu), {expected.loss}) <= limit);
      CHECK(relative_error(values_of(logsumexp.gpu), expected.logsumexp) <= limit);
      gpu_backend().softmax_cross_entropy_backward(
          {c.rows, c.classes, static_cast<float>(c.smoothing), logits.input(kGpu),
           targets.data<std::int32_t>(kGpu), expected.counted, logsumexp.data(kGpu),
           dloss.data(kGpu), dlogits.output(kGpu)});
      CHECK(relative_error(values_of(dlogits.gpu), expected.gradient) <=
            (dtype == DType::f64 ? 1e-12 : tolerance(dtype)));
    }
  }
}

}  // namespace
}  // namespace tape8::test
