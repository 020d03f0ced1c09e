#include <cmath>
#include <utility>

#include "cuda/both_backends.hpp"

namespace tape8::test {
namespace {

DType stat(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

/// Sums are made in f64: what is left is one rounding to the result's type.
double sum_tolerance(DType dtype) {
  if (dtype == DType::f64) return 1e-13;
  return dtype == DType::f32 ? 0x1p-23 : tolerance(dtype);
}

TEST_CASE("cuda: reduce is the float64 sum, rounded") {
  struct Case {
    std::int64_t outer, reduced, inner;
  };
  for (const DType dtype : kTypes) {
    for (const Case& c :
         {Case{3, 5, 7}, Case{1, 9001, 1}, Case{70, 33, 1}, Case{1, 300, 130}, Case{2, 1000, 5},
          Case{2, 0, 4}, Case{3, 0, 1}, Case{0, 3, 4}, Case{3, 4, 0}, Case{1, 1, 1}}) {
      CAPTURE(c.outer);
      CAPTURE(c.reduced);
      CAPTURE(c.inner);
      const Tensor x = random_tensor({c.outer, c.reduced, c.inner}, 1, dtype, -0.5, 1.0);
      const Values values = values_of(x);
      Values sums(static_cast<std::size_t>(c.outer * c.inner), 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        sums[static_cast<std::size_t>(at / c.inner / c.reduced * c.inner + at % c.inner)] +=
            values[i] * 0.3;
      }
      const Pair source(x);
      Pair y = results({c.outer, c.inner}, dtype), amax = results({1}, DType::f32);
      Output output = y.output(kGpu);
      output.amax = amax.data<Amax>(kGpu);
      gpu_backend().reduce({c.outer, c.reduced, c.inner, source.input(kGpu), 0.3, output});
      CHECK(relative_error(values_of(y.gpu), sums) <= sum_tolerance(dtype));
      CHECK(std::fabs(amax.gpu.item<double>() - largest_magnitude(sums)) <=
            1e-6 * largest_magnitude(sums));
      const auto first = bytes_on_host(y.gpu);
      gpu_backend().reduce({c.outer, c.reduced, c.inner, source.input(kGpu), 0.3, output});
      CHECK(bytes_on_host(y.gpu) == first);
    }
  }
}

TEST_CASE("cuda: mse is the float64 mean, and 0 of nothing") {
  for (const DType dtype : kTypes) {
    for (const std::int64_t count : kCounts) {
      const Pair prediction(random_tensor({count}, 2, dtype)),
          target(random_tensor({count}, 3, dtype));
      double sum = 0.0;
      const Values p = values_of(prediction.cpu), t = values_of(target.cpu);
      for (std::size_t i = 0; i < p.size(); ++i) sum += (p[i] - t[i]) * (p[i] - t[i]);
      Pair loss = results({1}, stat(dtype));
      gpu_backend().mse({count, prediction.input(kGpu), target.input(kGpu), loss.data(kGpu)});
      const double mean = count == 0 ? 0.0 : sum / static_cast<double>(count);
      // Differences and squares are rounded to f32.
      CHECK(relative_error(values_of(loss.gpu), {mean}) <= (dtype == DType::f64 ? 1e-13 : 1e-6));
    }
  }
}

TEST_CASE("cuda: sum_of_squares in f64") {
  for (const DType dtype : kTypes) {
    for (const std::int64_t count : kCounts) {
      const Pair x(random_tensor({count}, 4, dtype));
      double sum = 0.0;
      for (const double value : values_of(x.cpu)) sum += value * value;
      CHECK(relative_error({gpu_backend().sum_of_squares(count, x.input(kGpu))}, {sum}) <= 1e-13);
    }
  }
}

TEST_CASE("cuda: all_finite finds one NaN or Inf, wherever it is") {
  for (const DType dtype : kTypes) {
    for (const std::int64_t count : {1, 17, 5000}) {
      Values values = random_values(count, 5);
      const auto verdict = [&] {
        const Pair x(Tensor::from(values, {count}, dtype));
        return gpu_backend().all_finite(count, x.input(kGpu));
      };
      CHECK(verdict());
      for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
        for (const double bad : {std::nan(""), static_cast<double>(INFINITY)}) {
          const double old = std::exchange(values[static_cast<std::size_t>(at)], bad);
          CHECK_FALSE(verdict());
          values[static_cast<std::size_t>(at)] = old;
        }
      }
    }
  }
  CHECK(gpu_backend().all_finite(0, {}));
  // Finite in f64 alone.
  const Pair large(Tensor::full({3}, 1e300, DType::f64));
  CHECK(gpu_backend().all_finite(3, large.input(kGpu)));
}

}  // namespace
}  // namespace tape8::test
