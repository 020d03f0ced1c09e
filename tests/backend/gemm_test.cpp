#include "backend/cpu/gemm.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tape8/core/error.hpp>
#include <tape8/core/threads.hpp>
#include <vector>

#include "core/formats.hpp"

namespace tape8 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kOperandTypes[] = {DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2};

struct Size {
  std::int64_t m, n, k;
};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Values in memory of some type, written and read through the byte tables of core.
class Memory {
 public:
  Memory(DType dtype, std::int64_t count)
      : dtype_(dtype), bytes_(index(std::max<std::int64_t>(count, 1) * bits(dtype) / 8), 0xA5) {}

  void set(std::int64_t i, float value) {
    if (dtype_ == DType::f32) return write(i, value);
    if (bits(dtype_) == 16) return write(i, encode(dtype_, value));
    write(i, static_cast<std::uint8_t>(encode(dtype_, value)));
  }

  float get(std::int64_t i) const {
    if (dtype_ == DType::f32) return read<float>(i);
    if (bits(dtype_) == 16) return static_cast<float>(decode(dtype_, read<std::uint16_t>(i)));
    return static_cast<float>(decode(dtype_, read<std::uint8_t>(i)));
  }

  DType dtype() const { return dtype_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  template <class T>
  void write(std::int64_t i, T value) {
    std::memcpy(bytes_.data() + index(i) * sizeof(T), &value, sizeof(T));
  }
  template <class T>
  T read(std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + index(i) * sizeof(T), sizeof(T));
    return value;
  }

  DType dtype_;
  std::vector<unsigned char> bytes_;
};

/// A matrix whose values `dtype` has, in both layouts.
struct Matrix {
  std::int64_t rows, cols;
  Memory plain, transposed;

  template <class Generator>
  Matrix(std::int64_t row_count, std::int64_t col_count, DType dtype, Generator&& next)
      : rows(row_count),
        cols(col_count),
        plain(dtype, row_count * col_count),
        transposed(dtype, row_count * col_count) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const float value = next();
        plain.set(r * cols + c, value);
        transposed.set(c * rows + r, value);
      }
    }
  }

  float at(std::int64_t r, std::int64_t c) const { return plain.get(r * cols + c); }
  DType dtype() const { return plain.dtype(); }
  GemmOperand operand(bool transpose) const {
    return {
        .data = (transpose ? transposed : plain).data(), .dtype = dtype(), .transposed = transpose};
  }
};

auto normal(std::uint64_t seed) {
  return
      [engine = std::mt19937_64(seed), distribution = std::normal_distribution<float>()]() mutable {
        return distribution(engine);
      };
}

float flush(float value) {
  return std::fabs(value) < 0x1p-126F ? std::copysign(0.0F, value) : value;
}

/// One step of vdpbf16ps for bf16 a and b: the exact sum rounded to odd in f64, moved away from the
/// subnormals of f32, rounded to 24 bits, and only then compared with the smallest normal number.
float flushed_fma(float a, float b, float c) {
  const double product = static_cast<double>(flush(a)) * static_cast<double>(flush(b));
  double sum = product + c;
  if (!std::isfinite(sum)) return static_cast<float>(sum);
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  if (error != 0.0) {
    auto bits = std::bit_cast<std::uint64_t>(sum);
    if ((error < 0.0) != (sum < 0.0)) --bits;
    sum = std::bit_cast<double>(bits | 1U);
  }
  if (std::fabs(sum) > 1.0) return static_cast<float>(sum);
  const auto rounded = static_cast<float>(sum * 0x1p100);
  return std::fabs(rounded) < 0x1p-26F ? std::copysign(0.0F, rounded) : rounded * 0x1p-100F;
}

bool is_narrow(DType dtype) { return dtype == DType::bf16 || is_fp8(dtype); }

/// Element (r, c) of a * b in the order that GemmArgs promises.
float exact_sum(const std::vector<float>& a, const std::vector<float>& b, const Size& size,
                bool narrow, std::int64_t r, std::int64_t c) {
  const float* row = a.data() + r * size.k;
  const float* col = b.data() + c * size.k;
  float sum = 0.0F;
  if (!narrow) {
    for (std::int64_t k = 0; k < size.k; ++k) sum = std::fma(row[k], col[k], sum);
    return sum;
  }
  for (std::int64_t k = 0; k < size.k; k += 2) {
    const bool odd = k + 1 < size.k;
    sum = flushed_fma(odd ? row[k + 1] : 0.0F, odd ? col[k + 1] : 0.0F, sum);
    sum = flushed_fma(row[k], col[k], sum);
  }
  return sum;
}

/// a * b in that order for every `stride`-th element; the others are NaN.
std::vector<float> exact_product(const Matrix& a, const Matrix& b, std::int64_t stride = 1) {
  const Size size{a.rows, b.cols, a.cols};
  std::vector<float> rows(index(size.m * size.k)), cols(index(size.n * size.k));
  for (std::int64_t r = 0; r < size.m; ++r) {
    for (std::int64_t k = 0; k < size.k; ++k) rows[index(r * size.k + k)] = a.at(r, k);
  }
  for (std::int64_t c = 0; c < size.n; ++c) {
    for (std::int64_t k = 0; k < size.k; ++k) cols[index(c * size.k + k)] = b.at(k, c);
  }
  const bool narrow = is_narrow(a.dtype()) && is_narrow(b.dtype());
  std::vector<float> d(index(size.m * size.n), kNan);
  for (std::int64_t i = 0; i < size.m * size.n; i += stride) {
    d[index(i)] = exact_sum(rows, cols, size, narrow, i / size.n, i % size.n);
  }
  return d;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Number of elements, of every `stride`-th, that differ in any bit; NaNs are alike.
std::int64_t differing(const Memory& d, const std::vector<float>& expected,
                       std::int64_t stride = 1) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < expected.size(); i += index(stride)) {
    count += same_bits(d.get(static_cast<std::int64_t>(i)), expected[i]) ? 0 : 1;
  }
  return count;
}

std::string describe(const Matrix& a, const Matrix& b, bool transpose_a, bool transpose_b) {
  return std::string(to_string(a.dtype())) + " x " + std::string(to_string(b.dtype())) + " " +
         std::to_string(a.rows) + "x" + std::to_string(b.cols) + "x" + std::to_string(a.cols) +
         " " + (transpose_a ? "T" : "N") + (transpose_b ? "T" : "N");
}

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
  // Blocks hold 1024 columns, 1024 rows of partial sums, and 512 or 1024 values of k.
  struct Case {
    Size size;
    DType a_type, b_type;
  };
  const Case cases[] = {{{17, 1061, 767}, DType::e4m3, DType::e4m3},
                        {{71, 67, 2063}, DType::e4m3, DType::e5m2},
                        {{1031, 35, 1027}, DType::bf16, DType::e4m3},
                        {{75, 97, 1543}, DType::f32, DType::f32},
                        {{1029, 33, 515}, DType::e4m3, DType::f32}};
  std::uint64_t seed = 1000;
  for (const Case& c : cases) {
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

/// What the epilogue must make of exact sums.
struct Finished {
  Memory d;
  float amax = 0.0F;
};

Finished finish(const std::vector<float>& sums, std::int64_t n, const float* factor,
                const std::vector<float>* bias, DType dtype, float scale) {
  Finished out{Memory(dtype, static_cast<std::int64_t>(sums.size()))};
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(sums.size()); ++i) {
    float value = sums[index(i)];
    if (factor != nullptr) value *= *factor;
    if (bias != nullptr) value += (*bias)[index(i % n)];
    if (std::isnan(value) || std::fabs(value) > out.amax) out.amax = std::fabs(value);
    if (std::isnan(out.amax)) value = kNan;
    out.d.set(i, is_fp8(dtype) ? value * scale : value);
  }
  return out;
}

TEST_CASE("gemm: scales, bias, output types and amax, byte for byte") {
  const Size size{31, 77, 45};
  const ScaleInv scale_a{0.375F}, scale_b{0.0123F};
  const float factor = scale_a.value * scale_b.value;
  const Scale scale{100.0F};
  std::uint64_t seed = 50;
  for (const DType operand : {DType::e4m3, DType::f32}) {
    const Matrix a(size.m, size.k, operand, normal(++seed));
    const Matrix b(size.k, size.n, operand, normal(++seed));
    const std::vector<float> sums = exact_product(a, b);
    std::vector<float> bias(index(size.n));
    auto next = normal(++seed);
    for (float& value : bias) value = next() * 3.0F;
    for (const DType dtype : kOperandTypes) {
      for (const int options : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const bool scaled = (options & 1) != 0;
        const bool biased = (options & 2) != 0;
        const bool measured = (options & 4) != 0;
        const Finished expected = finish(sums, size.n, scaled ? &factor : nullptr,
                                         biased ? &bias : nullptr, dtype, scale.value);
        for (const cpu::Isa isa : cpu::available_isas()) {
          Memory d(dtype, size.m * size.n);
          Amax amax{-1.0F};
          GemmArgs args{.m = size.m, .n = size.n, .k = size.k};
          args.a = a.operand((options & 1) != 0);
          args.b = b.operand((options & 2) != 0);
          if (scaled) {
            args.a.scaling_mode = args.b.scaling_mode = ScalingMode::per_tensor;
            args.a.scale_inv = &scale_a;
            args.b.scale_inv = &scale_b;
          }
          if (biased) args.bias = bias.data();
          args.d = {.data = d.data(), .dtype = dtype, .scale = &scale};
          if (measured) args.d.amax = &amax;
          cpu::gemm(isa, args);
          INFO(cpu::to_string(isa) << " " << to_string(operand) << " -> " << to_string(dtype)
                                   << ", options " << options);
          CHECK(d.bytes() == expected.d.bytes());
          CHECK(amax.value == (measured ? expected.amax : -1.0F));
        }
      }
    }
  }
}

TEST_CASE("gemm: every rounding boundary of the output types") {
  // 1 x n x 1: the values of b pass through the epilogue alone. Around each code's value and each
  // midpoint, the neighbours too; saturation, Inf and NaN.
  for (const DType dtype : {DType::e4m3, DType::e5m2, DType::bf16, DType::f16}) {
    std::vector<float> values = {kInf, -kInf, kNan,      1e30F,   -1e30F,
                                 0.0F, -0.0F, 0x1p-149F, 0x1p-30F};
    const int step = bits(dtype) == 8 ? 1 : 37;
    for (int code = 0; code + step < (1 << (bits(dtype) - 1)); code += step) {
      const auto low = static_cast<float>(decode(dtype, static_cast<std::uint16_t>(code)));
      const auto high = static_cast<float>(decode(dtype, static_cast<std::uint16_t>(code + 1)));
      const float middle = low + (high - low) / 2.0F;
      for (const float value :
           {low, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, kInf)}) {
        values.push_back(value);
        values.push_back(-value);
      }
    }
    const auto n = static_cast<std::int64_t>(values.size());
    std::size_t at = 0;
    const Matrix b(1, n, DType::f32, [&] { return values[at++]; });
    const Matrix a(1, 1, DType::f32, [] { return 1.0F; });
    Memory expected(dtype, n);
    for (std::int64_t i = 0; i < n; ++i) expected.set(i, std::fma(1.0F, values[index(i)], 0.0F));
    for (const cpu::Isa isa : cpu::available_isas()) {
      Memory d(dtype, n);
      Amax amax;
      cpu::gemm(isa, {.m = 1,
                      .n = n,
                      .k = 1,
                      .a = a.operand(false),
                      .b = b.operand(false),
                      .d = {.data = d.data(), .dtype = dtype, .amax = &amax}});
      INFO(cpu::to_string(isa) << " " << to_string(dtype));
      CHECK(d.bytes() == expected.bytes());
      CHECK(std::isnan(amax.value));
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

TEST_CASE("gemm: empty sizes") {
  const std::vector<float> bias = {1.0F, -2.0F, 3.0F};
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const DType operand : {DType::bf16, DType::f32}) {
      Memory d(DType::f32, 6);
      Amax amax{5.0F};
      GemmArgs args{.m = 2, .n = 3, .k = 0, .a = {.dtype = operand}, .b = {.dtype = operand}};
      args.d = {.data = d.data(), .amax = &amax};
      cpu::gemm(isa, args);
      CHECK(differing(d, std::vector<float>(6, 0.0F)) == 0);
      CHECK(amax.value == 0.0F);
      args.bias = bias.data();
      cpu::gemm(isa, args);
      CHECK(differing(d, {1.0F, -2.0F, 3.0F, 1.0F, -2.0F, 3.0F}) == 0);
      CHECK(amax.value == 3.0F);
    }
    for (const Size& size : {Size{0, 5, 3}, Size{5, 0, 3}, Size{0, 0, 0}}) {
      Amax amax{5.0F};
      cpu::gemm(isa, {.m = size.m, .n = size.n, .k = size.k, .d = {.amax = &amax}});
      CHECK(amax.value == 0.0F);
    }
  }
}

TEST_CASE("gemm: results do not depend on the number of threads") {
  const int threads = num_threads();
  const Size sizes[] = {{129, 515, 1029}, {700, 67, 200}, {5, 2000, 301}};
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
