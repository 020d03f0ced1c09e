#include "backend/cpu/gemm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/error.hpp>
#include <tape8/core/threads.hpp>

#include "backend/gemm_support.hpp"
#include "support/sanitizer.hpp"

namespace tape8 {
namespace {

using namespace gemm_test;

/// The f32 product on every instruction set and in every layout against bits.
void check_product(const Matrix& a, const Matrix& b, const std::vector<float>& expected,
                   std::int64_t stride = 1) {
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const int layout : {0, 1, 2, 3}) {
      const bool transpose_a = (layout & 2) != 0;
      const bool transpose_b = (layout & 1) != 0;
      Memory d(DType::f32, a.rows * b.cols);
      cpu::gemm(isa, {.m = a.rows,
                      .n = b.cols,
                      .k = a.cols,
                      .a = a.operand(transpose_a),
                      .b = b.operand(transpose_b),
                      .d = {.data = d.data()}});
      INFO(cpu::to_string(isa) << " " << describe(a, b, transpose_a, transpose_b));
      CHECK(differing(d, expected, stride) == 0);
    }
  }
}

/// f64 loops: with f32 sums of n products of standard normal values the error of a sum is about
/// sqrt(k) 2^-24 of the largest result for k < 2000, so 1e-5 leaves room and a lost term does not
/// fit.
void check_against_f64(const Matrix& a, const Matrix& b, const std::vector<float>& d) {
  double largest = 0.0, error = 0.0;
  bool finite = true;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < b.cols; ++c) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < a.cols; ++k) {
        sum += static_cast<double>(a.at(r, k)) * static_cast<double>(b.at(k, c));
      }
      const double value = d[index(r * b.cols + c)];
      finite = finite && std::isfinite(value);
      largest = std::max(largest, std::fabs(sum));
      error = std::max(error, std::fabs(value - sum));
    }
  }
  CHECK(finite);
  CHECK(error <= 1e-5 * largest);
}

TEST_CASE("gemm: every operand type, layout and instruction set gives the promised bits") {
  const Size sizes[] = {{1, 1, 1}, {1, 37, 5}, {29, 1, 64}, {15, 33, 31}, {43, 70, 130}};
  std::uint64_t seed = 1;
  for (const DType a_type : kOperandTypes) {
    for (const DType b_type : kOperandTypes) {
      if (a_type == DType::e5m2 && b_type == DType::e5m2) continue;
      for (const Size& size : sizes) {
        const Matrix a(size.m, size.k, a_type, normal(++seed));
        const Matrix b(size.k, size.n, b_type, normal(++seed));
        const std::vector<float> expected = exact_product(a, b);
        check_product(a, b, expected);
        check_against_f64(a, b, expected);
      }
    }
  }
}

TEST_CASE("gemm: sizes across every block boundary keep the order of the sums") {
  // Blocks hold 1.25 Mi words of b, and 2048 words of k (two bf16 values each with AVX-512);
  // partial sums, which only a k in several blocks has, 1024 columns and about as many rows.
  struct Case {
    Size size;
    DType a_type, b_type;
  };
  const Case cases[] = {{{5, 1061, 2047}, DType::e4m3, DType::e4m3},
                        {{71, 67, 4111}, DType::e4m3, DType::e5m2},
                        {{1031, 19, 2051}, DType::bf16, DType::e4m3},
                        {{2111, 37, 4099}, DType::e4m3, DType::bf16},
                        {{5, 2089, 4099}, DType::bf16, DType::e4m3},
                        {{75, 97, 2055}, DType::f32, DType::f32},
                        {{2111, 37, 2055}, DType::e4m3, DType::f32},
                        {{5, 2089, 2055}, DType::f32, DType::f32},
                        // a is kept, packed, from one block of b to the next
                        {{71, 2621, 2047}, DType::e4m3, DType::e4m3},
                        {{71, 2621, 2047}, DType::f32, DType::bf16}};
  std::uint64_t seed = 1000;
  constexpr std::size_t kQuick = 2;
  for (const Case& c : test::affordable(cases, kQuick)) {
    const Matrix a(c.size.m, c.size.k, c.a_type, normal(++seed));
    const Matrix b(c.size.k, c.size.n, c.b_type, normal(++seed));
    constexpr std::int64_t kStride = 11;  // no divisor of a row: all rows and columns come up
    check_product(a, b, exact_product(a, b, kStride), kStride);
  }
}

TEST_CASE("gemm: denormals, cancellation and overflow give the bits of the bf16 dot") {
  std::mt19937_64 engine(7);
  // Exponents so that products and sums meet the smallest normal number, the largest, and each
  // other.
  const auto wild = [&](int exponent, int spread) {
    return [&engine, exponent, spread] {
      const auto random = static_cast<std::uint32_t>(engine());
      const int field =
          exponent + static_cast<int>((random >> 16) % static_cast<std::uint32_t>(spread));
      const std::uint32_t bits = (random & 0x8000U) |
                                 (static_cast<std::uint32_t>(std::clamp(field, 0, 254)) << 7) |
                                 (random & 0x7FU);
      return std::bit_cast<float>(bits << 16);
    };
  };
  struct Case {
    int a_exponent, a_spread, b_exponent, b_spread;
  };
  const Case cases[] = {{60, 8, 60, 8},     {0, 3, 100, 30}, {40, 30, 75, 24},
                        {180, 60, 180, 30}, {120, 12, 0, 2}, {0, 255, 0, 255}};
  for (const Case& c : cases) {
    for (const std::int64_t k : {1, 2, 9, 40}) {
      const Matrix a(90, k, DType::bf16, wild(c.a_exponent, c.a_spread));
      const Matrix b(k, 101, DType::bf16, wild(c.b_exponent, c.b_spread));
      check_product(a, b, exact_product(a, b));
    }
  }
}

TEST_CASE("gemm: a sum is denormal if it is so before its exponent is bounded") {
  // 2^-126 - product: the halfway point to the next smaller 24-bit number is 2^-126 - 2^-151. Above
  // it and on it (to even) the sum is normal; below it a zero, though in the steps of denormals it
  // would round to 2^-126 as well.
  struct Case {
    float units;  // product in units of 2^-151
    float expected;
  };
  const Case cases[] = {
      {0x1.FCp-1F, 0x1p-126F}, {1.0F, 0x1p-126F}, {0x1.02p0F, 0.0F}, {2.0F, 0.0F}, {4.0F, 0.0F}};
  for (const Case& c : cases) {
    for (const float sign : {1.0F, -1.0F}) {
      int at = 0;
      const float row[] = {-sign * c.units * 0x1p-76F, sign * 0x1p-63F};
      const float col[] = {0x1p-75F, 0x1p-63F};
      const Matrix a(1, 2, DType::bf16, [&] { return row[at++]; });
      at = 0;
      const Matrix b(2, 1, DType::bf16, [&] { return col[at++]; });
      check_product(a, b, {sign * c.expected});
    }
  }
}

TEST_CASE("gemm: f32 sums keep their denormals") {
  const Matrix a(1, 2, DType::f32, [] { return 0x1p-70F; });
  const Matrix b(2, 1, DType::f32, [] { return 0x1p-70F; });
  check_product(a, b, {0x1p-139F});
}

TEST_CASE("gemm: NaN and Inf reach the results they belong to and no others") {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const float special : {kNan, kInf, -kInf}) {
      Matrix a(31, 33, dtype, normal(3));
      const Matrix b(33, 35, dtype, normal(4));
      a.plain.set(17 * 33 + 32, special);
      a.transposed.set(32 * 31 + 17, special);
      const std::vector<float> expected = exact_product(a, b);
      std::int64_t finite = 0;
      for (const float value : expected) finite += std::isfinite(value) ? 1 : 0;
      CHECK(finite == 30 * 35);
      check_product(a, b, expected);
    }
  }
}

TEST_CASE("gemm: FP8 operands decode to the values of their byte tables") {
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    std::vector<float> expected;
    std::vector<std::uint8_t> codes;
    for (int code = 0; code < 256; ++code) {
      codes.push_back(static_cast<std::uint8_t>(code));
      const auto value = static_cast<float>(decode(dtype, static_cast<std::uint16_t>(code)));
      expected.push_back(value + 0.0F);
    }
    for (const DType other : {DType::bf16, DType::f32}) {
      const Matrix one(1, 1, other, [] { return 1.0F; });
      for (const cpu::Isa isa : cpu::available_isas()) {
        for (const bool as_a : {false, true}) {
          const GemmOperand tested{.data = codes.data(), .dtype = dtype};
          Memory d(DType::f32, 256);
          cpu::gemm(isa, {.m = as_a ? 256 : 1,
                          .n = as_a ? 1 : 256,
                          .k = 1,
                          .a = as_a ? tested : one.operand(false),
                          .b = as_a ? one.operand(false) : tested,
                          .d = {.data = d.data()}});
          INFO(cpu::to_string(isa) << " " << to_string(dtype) << " with " << to_string(other));
          CHECK(differing(d, expected) == 0);
        }
      }
    }
  }
}

TEST_CASE("gemm: results do not depend on the number of threads") {
  const int threads = num_threads();
  const Size sizes[] = {{129, 200, 131}, {400, 67, 50}, {5, 1500, 71}};
  std::uint64_t seed = 90;
  for (const Size& size : sizes) {
    for (const DType dtype : {DType::e4m3, DType::f32}) {
      const Matrix a(size.m, size.k, dtype, normal(++seed));
      const Matrix b(size.k, size.n, dtype, normal(++seed));
      for (const cpu::Isa isa : cpu::available_isas()) {
        std::vector<Memory> results;
        std::vector<float> amaxes;
        for (const int count : {1, 2, 3}) {
          set_num_threads(count);
          results.emplace_back(DType::bf16, size.m * size.n);
          Amax amax;
          cpu::gemm(isa,
                    {.m = size.m,
                     .n = size.n,
                     .k = size.k,
                     .a = a.operand(true),
                     .b = b.operand(false),
                     .d = {.data = results.back().data(), .dtype = DType::bf16, .amax = &amax}});
          amaxes.push_back(amax.value);
        }
        INFO(cpu::to_string(isa) << " " << describe(a, b, true, false));
        CHECK(results[0].bytes() == results[1].bytes());
        CHECK(results[0].bytes() == results[2].bytes());
        CHECK(amaxes[0] > 0.0F);
        CHECK(amaxes[0] == amaxes[1]);
        CHECK(amaxes[0] == amaxes[2]);
      }
    }
  }
  set_num_threads(threads);
}

TEST_CASE("gemm: f64") {
  const Size size{37, 45, 101};
  std::mt19937_64 engine(5);
  std::normal_distribution<double> distribution;
  std::vector<double> a(index(size.m * size.k)), b(index(size.k * size.n)), bias(index(size.n));
  for (std::vector<double>* values : {&a, &b, &bias}) {
    for (double& value : *values) value = distribution(engine);
  }
  for (const int layout : {0, 1, 2, 3}) {
    const bool transpose_a = (layout & 2) != 0;
    const bool transpose_b = (layout & 1) != 0;
    std::vector<double> expected(index(size.m * size.n));
    double amax = 0.0;
    for (std::int64_t r = 0; r < size.m; ++r) {
      for (std::int64_t c = 0; c < size.n; ++c) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < size.k; ++k) {
          sum = std::fma(a[index(transpose_a ? k * size.m + r : r * size.k + k)],
                         b[index(transpose_b ? c * size.k + k : k * size.n + c)], sum);
        }
        expected[index(r * size.n + c)] = sum + bias[index(c)];
        amax = std::max(amax, std::fabs(sum + bias[index(c)]));
      }
    }
    for (const cpu::Isa isa : cpu::available_isas()) {
      std::vector<double> d(expected.size(), -1.0);
      Amax measured;
      cpu::gemm(isa, {.m = size.m,
                      .n = size.n,
                      .k = size.k,
                      .a = {.data = a.data(), .dtype = DType::f64, .transposed = transpose_a},
                      .b = {.data = b.data(), .dtype = DType::f64, .transposed = transpose_b},
                      .bias = bias.data(),
                      .d = {.data = d.data(), .dtype = DType::f64, .amax = &measured}});
      INFO(cpu::to_string(isa) << " layout " << layout);
      CHECK(d == expected);
      CHECK(measured.value == static_cast<float>(amax));
    }
  }
}

TEST_CASE("gemm: what it does not take throws before anything is written") {
  float d[4] = {7.0F, 7.0F, 7.0F, 7.0F};
  const std::vector<unsigned char> zeros(64);
  const auto attempt = [&](DType a, DType b, DType out) {
    cpu::gemm(cpu::available_isas().front(), {.m = 2,
                                              .n = 2,
                                              .k = 2,
                                              .a = {.data = zeros.data(), .dtype = a},
                                              .b = {.data = zeros.data(), .dtype = b},
                                              .d = {.data = d, .dtype = out}});
  };
  CHECK_THROWS_AS(attempt(DType::e5m2, DType::e5m2, DType::f32), UnsupportedError);
  CHECK_THROWS_AS(attempt(DType::f64, DType::f32, DType::f32), UnsupportedError);
  CHECK_THROWS_AS(attempt(DType::f64, DType::f64, DType::f32), UnsupportedError);
  CHECK_THROWS_AS(attempt(DType::f32, DType::f32, DType::f64), UnsupportedError);
  CHECK_THROWS_AS(attempt(DType::i32, DType::f32, DType::f32), UnsupportedError);
  CHECK_THROWS_AS(attempt(DType::e4m3, DType::e2m1, DType::f32), UnsupportedError);
  CHECK_THROWS_AS(attempt(DType::e8m0, DType::bf16, DType::f32), UnsupportedError);
  CHECK_THROWS_AS(attempt(DType::f32, DType::f32, DType::u8), UnsupportedError);
  for (const float value : d) CHECK(value == 7.0F);
}

}  // namespace
}  // namespace tape8
