#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/autograd/tape.hpp>
#include <tape8/gradcheck.hpp>
#include <tape8/ops/arithmetic.hpp>
#include <tape8/ops/dense.hpp>
#include <tape8/ops/reshape.hpp>

#include "support/expect.hpp"
#include "support/float_table.hpp"
#include "support/quantizer_sets.hpp"
#include "support/values.hpp"

namespace tape8::test {
namespace {

constexpr std::int64_t kRows = 6, kIn = 20, kOut = 9;

/// a [m, k] * b [k, n], or with either one transposed in memory.
Values product(const Values& a, const Values& b, std::int64_t m, std::int64_t k, std::int64_t n,
               bool a_transposed = false, bool b_transposed = false) {
  Values y(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l) {
        y[static_cast<std::size_t>(i * n + j)] +=
            a[static_cast<std::size_t>(a_transposed ? l * m + i : i * k + l)] *
            b[static_cast<std::size_t>(b_transposed ? j * k + l : l * n + j)];
      }
    }
  }
  return y;
}

Values column_sums(const Values& dy) {
  Values sums(static_cast<std::size_t>(kOut));
  for (std::size_t i = 0; i < dy.size(); ++i) sums[i % sums.size()] += dy[i];
  return sums;
}

/// A dense layer in FP8 and its right results, each of which a test may spoil.
struct DenseCheck {
  QuantizerSet set = make_set({});
  Tensor x = random_tensor({kRows, kIn}, 1);
  Tensor kernel = random_tensor({kIn, kOut}, 2);
  Tensor bias = random_tensor({kOut}, 3);
  CheckedFunction function = [this](std::span<const Variable> in) {
    return dense(in[0], in[1], in[2], {.quantizer_set = set});
  };
  Reference reference = [this](const Tensor& dy) { return expected(values_of(dy)); };

  Expected result(Values values, Values unquantized) const {
    return {.values = std::move(values), .tolerance = 0.0, .unquantized = std::move(unquantized)};
  }

  ExpectedResults expected(const Values& dy) const {
    const Values xv = values_of(x);
    const Values kv = values_of(kernel);
    const Values xq = operand(xv, set.x, DType::f32);
    const Values kq = operand(kv, set.kernel, DType::f32);
    const Values dyq = operand(dy, set.dgrad, DType::f32);
    const Values b = values_of(bias);
    const auto with_bias = [&](Values y) {
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
      return y;
    };
    return {.output = result(with_bias(product(xq, kq, kRows, kIn, kOut)),
                             with_bias(product(xv, kv, kRows, kIn, kOut))),
            .gradients = {result(product(dyq, kq, kRows, kOut, kIn, false, true),
                                 product(dy, kv, kRows, kOut, kIn, false, true)),
                          result(product(xq, dyq, kIn, kRows, kOut, true),
                                 product(xv, dy, kIn, kRows, kOut, true)),
                          {.values = column_sums(dy)}}};
  }

  GradcheckResult run() const {
    return check_against(function, {x, kernel, bias}, reference,
                         {.names = {"x", "kernel", "bias"}});
  }
};

void check_failed(const GradcheckResult& result, const std::string& tensor,
                  const std::string& part) {
  CAPTURE(result.message());
  CHECK(result.verdict == Verdict::failed);
  CHECK(result.worst.name == tensor);
  CHECK(result.message().find(part) != std::string::npos);
}

TEST_CASE("check_against: FP8 that is right") {
  const DenseCheck check;
  const GradcheckResult result = check.run();
  CAPTURE(result.message());
  CHECK(result.passed());
  REQUIRE(result.comparisons.size() == 4);
  CHECK(result.comparisons[3].name == "gradient of bias");
  for (const Comparison& comparison : result.comparisons) CHECK(comparison.tolerance == 1e-5);
}

TEST_CASE("check_against: FP8 that silently ran in fp32") {
  DenseCheck check;
  check.function = [](std::span<const Variable> in) { return dense(in[0], in[1], in[2]); };
  const GradcheckResult result = check.run();
  CHECK(result.verdict == Verdict::failed);
  for (const Comparison& comparison : result.comparisons) {
    CAPTURE(comparison.message);
    if (comparison.name == "gradient of bias") continue;  // it is summed before the cast
    CHECK(comparison.verdict == Verdict::failed);
    CHECK(comparison.message.find("nothing was quantized") != std::string::npos);
  }
}

TEST_CASE("check_against: one operand that silently stayed in fp32") {
  for (int role = 0; role < 3; ++role) {
    CAPTURE(role);
    DenseCheck check;
    QuantizerSet used = check.set;
    (role == 0 ? used.x : role == 1 ? used.kernel : used.dgrad) = {};
    check.function = [&](std::span<const Variable> in) {
      return dense(in[0], in[1], in[2], {.quantizer_set = used});
    };
    CHECK(check.run().verdict == Verdict::failed);
  }
}

TEST_CASE("check_against: a reference that quantization does not move shows nothing") {
  DenseCheck check;
  // Small whole numbers are exact in e4m3, whatever power of 2 they are multiplied by.
  check.x = Tensor::full({kRows, kIn}, 2.0);
  check.kernel = Tensor::full({kIn, kOut}, 1.0);
  for (Quantizer* q : {&check.set.x, &check.set.kernel})
    q->set_state({64.0F}, std::vector<float>{0.0F, 1.0F});
  const GradcheckResult result = check.run();
  CAPTURE(result.message());
  CHECK(result.verdict == Verdict::inconclusive);
  CHECK(result.worst.name == "output");
  CHECK(result.message().find("quantization makes no difference") != std::string::npos);
}

TEST_CASE("check_against: a scale that is off by 2") {
  DenseCheck check;
  const QuantizerSet used = check.set.clone();
  QuantizerSet off = check.set.clone();
  // The casts are right, and what is read after them is multiplied by another factor.
  check.function = [&](std::span<const Variable> in) {
    return dense(in[0] * 2.0, in[1], in[2] * 2.0, {.quantizer_set = off});
  };
  off.x.set_state({used.x.scale().value / 2.0F}, used.x.amax_history());
  const GradcheckResult doubled_result = check.run();
  for (const Comparison& comparison : doubled_result.comparisons) {
    CAPTURE(comparison.message);
    CHECK(comparison.verdict == Verdict::failed);
    CHECK(comparison.message.find("it is 2 times what it should be") != std::string::npos);
  }

  // A cast with another scale than the one in force.
  DenseCheck tampered;
  QuantizerSet doubled = tampered.set.clone();
  doubled.x.set_state({tampered.set.x.scale().value * 3.0F}, tampered.set.x.amax_history());
  tampered.function = [&](std::span<const Variable> in) {
    return dense(in[0], in[1], in[2], {.quantizer_set = doubled});
  };
  CHECK(tampered.run().verdict == Verdict::failed);
}

TEST_CASE("check_against: a dbias that is dropped, or summed after the cast") {
  DenseCheck check;
  check.function = [&](std::span<const Variable> in) {
    return dense(in[0], in[1], in[2].tensor(), {.quantizer_set = check.set});
  };
  check_failed(check.run(), "gradient of bias", "no gradient arrived");

  DenseCheck late;
  late.reference = [&](const Tensor& dy) {
    ExpectedResults expected = late.expected(values_of(dy));
    expected.gradients[2].values = column_sums(operand(values_of(dy), late.set.dgrad, DType::f32));
    return expected;
  };
  check_failed(late.run(), "gradient of bias", "exceeds 1.00e-05");
}

TEST_CASE("check_against: zeros, NaNs and sizes that differ") {
  DenseCheck zeros;
  zeros.function = [&](std::span<const Variable> in) {
    return dense(in[0] * 0.0, in[1], in[2] * 0.0, {.quantizer_set = zeros.set});
  };
  check_failed(zeros.run(), "output", "it is zero throughout");

  DenseCheck nan;
  nan.x.mutable_span<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const GradcheckResult poisoned = nan.run();
  CHECK(poisoned.verdict == Verdict::failed);
  CHECK(poisoned.message().find("nan") != std::string::npos);

  DenseCheck sizes;
  sizes.reference = [&](const Tensor& dy) {
    ExpectedResults expected = sizes.expected(values_of(dy));
    expected.gradients[1].values.pop_back();
    return expected;
  };
  check_failed(sizes.run(), "gradient of kernel", "has 180 elements, the reference 179");
}

TEST_CASE("check_against: the reference comes between forward and backward, off the tape") {
  const Tensor x = random_tensor({4}, 1);
  Quantizer q = make_quantizer(DelayedScaling{.amax_history_len = 1}, TensorRole::x);
  std::size_t nodes = 0;
  Scale scale_then;
  const auto run = [&] {
    return check_against(
        [&](std::span<const Variable> in) {
          (void)q.quantize(in[0].tensor());
          return in[0] * 2.0;
        },
        {x},
        [&](const Tensor& dy) {
          nodes = Tape::current() == nullptr ? 0 : Tape::current()->size();
          scale_then = q.clone().scale();
          Values y = values_of(x);
          Values dx = values_of(dy);
          for (double& value : y) value *= 2.0;
          for (double& value : dx) value *= 2.0;
          return ExpectedResults{.output = {.values = y}, .gradients = {{.values = dx}}};
        });
  };
  CHECK(run().passed());
  CHECK(nodes == 0);
  CHECK(scale_then == Scale{1.0F});
  CHECK_FALSE(q.scale() == Scale{1.0F});
  const Scale now = q.scale();
  CHECK(run().passed());
  CHECK(scale_then == now);
}

TEST_CASE("check_against and compare: arguments out of range") {
  const DenseCheck check;
  check_throws<OptionError>("check_against", [&] {
    (void)check_against([](std::span<const Variable> in) { return in[0] * 2.0; }, {check.x},
                        [](const Tensor&) {
                          return ExpectedResults{.output = {}, .gradients = {{}, {}}};
                        });
  });
  check_throws<OptionError>("gradcheck", [&] {
    (void)check_against([](std::span<const Variable> in) { return in[0] * 2.0; }, {check.x},
                        [](const Tensor&) { return ExpectedResults{}; }, {.names = {"a", "b"}});
  });
  for (const double tolerance : {-1.0, 0.5, 1.0}) {
    check_throws<OptionError>("gradcheck", [&] {
      (void)compare("x", check.bias, {.values = values_of(check.bias), .tolerance = tolerance});
    });
  }
}

TEST_CASE("compare: a tensor, or none") {
  const Tensor t = Tensor::from({1.0F, 2.0F, -4.0F}, {3});
  const Comparison right = compare("t", t, {.values = {1.0, 2.0, -4.0}});
  CHECK(right.verdict == Verdict::passed);
  CHECK(right.error == 0.0);
  CHECK(right.message == "t: error 0.00e+00 is within 1.00e-05");
  const Comparison wrong = compare("t", t, {.values = {1.0, 2.5, -4.0}});
  CHECK(wrong.verdict == Verdict::failed);
  CHECK(wrong.element == 1);
  CHECK(wrong.value == 2.0);
  CHECK(wrong.reference == 2.5);
  CHECK(wrong.error == 0.125);
  CHECK(compare("none", Tensor{}, {.values = {1.0}}).verdict == Verdict::failed);
  CHECK(compare("none", Tensor{}, {.values = {0.0}}).verdict == Verdict::inconclusive);
}

}  // namespace
}  // namespace tape8::test
