#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/threads.hpp>

#include "backend/cpu/gemm.hpp"
#include "backend/gemm_block_support.hpp"
#include "backend/gemm_isas.hpp"

// Products of block-scaled operands, bit for bit.

namespace tape8 {
namespace {

using namespace gemm_test;

/// a * b over `depth` products in the promised order, every `stride`-th element; NaN elsewhere.
std::vector<float> promised(const Operand& a, const Operand& b, std::int64_t depth,
                            std::int64_t stride) {
  const Size size{a.rows, b.rows, depth};
  const std::vector<float> rows = a.values(depth);
  const std::vector<float> cols = b.values(depth);
  const bool narrow = !a.kind.wide && !b.kind.wide;
  std::vector<float> d(index(size.m * size.n), kNan);
  for (std::int64_t i = 0; i < size.m * size.n; i += stride) {
    d[index(i)] = exact_sum(rows, cols, size, narrow, i / size.n, i % size.n);
  }
  return d;
}

/// Sums in f64. Those in f32 of up to 2200 terms are about sqrt(k) 2^-24 of the largest term off,
/// which is near the largest sum; 1e-5 of it leaves room, and no block's worth of terms fits.
void check_against_f64(const Operand& a, const Operand& b, const std::vector<float>& d,
                       std::int64_t depth, std::int64_t stride) {
  const std::vector<float> rows = a.values(depth);
  const std::vector<float> cols = b.values(depth);
  double largest = 0.0, error = 0.0;
  bool finite = true;
  for (std::int64_t i = 0; i < a.rows * b.rows; i += stride) {
    const float* row = rows.data() + i / b.rows * depth;
    const float* col = cols.data() + i % b.rows * depth;
    double sum = 0.0;
    for (std::int64_t k = 0; k < depth; ++k) sum += static_cast<double>(row[k]) * col[k];
    finite = finite && std::isfinite(d[index(i)]);
    largest = std::max(largest, std::fabs(sum));
    error = std::max(error, std::fabs(d[index(i)] - sum));
  }
  CHECK(finite);
  CHECK(error <= 1e-5 * largest);
}

struct Options {
  bool hadamard = false;
  std::int64_t stride = 1;
};

/// Every layout that the operands have, on every instruction set.
void check_product(const Operand& a, const Operand& b, const Options& options = {}) {
  const std::int64_t depth = options.hadamard ? a.padded_k : a.k;
  const std::vector<float> expected = promised(a, b, depth, options.stride);
  check_against_f64(a, b, expected, depth, options.stride);
  for (const int layout : {0, 1, 2, 3}) {
    const bool transpose_a = (layout & 2) != 0;
    const bool transpose_b = (layout & 1) != 0;
    if (!a.lies(!transpose_a) || !b.lies(transpose_b)) continue;
    Laid laid_a = a.as_a(transpose_a);
    Laid laid_b = b.as_b(transpose_b);
    laid_a.operand.hadamard = laid_b.operand.hadamard = options.hadamard;
    INFO(describe(a.kind) << " x " << describe(b.kind) << " " << a.rows << "x" << b.rows << "x"
                          << a.k << " " << (transpose_a ? 'T' : 'N') << (transpose_b ? 'T' : 'N'));
    check_on_every_isa(
        {.m = a.rows, .n = b.rows, .k = a.k, .a = laid_a.operand, .b = laid_b.operand}, expected,
        options.stride);
  }
}

void check_random(const Kind& a, const Kind& b, const Size& size, std::uint64_t& seed,
                  const Options& options = {}) {
  const Operand random_a = random_operand(a, size.m, size.k, ++seed);
  const Operand random_b = random_operand(b, size.n, size.k, ++seed);
  check_product(random_a, random_b, options);
}

bool both_e5m2(const Kind& a, const Kind& b) {
  return a.dtype == DType::e5m2 && b.dtype == DType::e5m2;
}

TEST_CASE("gemm blocks: every pair of kinds, in every layout") {
  std::vector<Kind> kinds(std::begin(kPlainKinds), std::end(kPlainKinds));
  kinds.insert(kinds.end(), std::begin(kBlockKinds), std::end(kBlockKinds));
  std::uint64_t seed = 1;
  for (const Kind& a : kinds) {
    for (const Kind& b : kinds) {
      if (both_e5m2(a, b)) continue;
      if (!is_block_scaled(a.mode) && !is_block_scaled(b.mode)) continue;
      check_random(a, b, {17, 37, 161}, seed);
    }
  }
}

TEST_CASE("gemm blocks: odd sizes") {
  const Size sizes[] = {{1, 1, 1},     {1, 37, 17},    {29, 1, 31},   {5, 19, 33},   {16, 65, 16},
                        {13, 33, 100}, {30, 31, 127},  {15, 50, 128}, {43, 18, 129}, {2, 3, 257},
                        {150, 5, 47},  {7, 139, 1025}, {259, 290, 40}};
  std::uint64_t seed = 1000;
  for (const Kind& kind : kBlockKinds) {
    const Kind other = kind.dtype == DType::e5m2 ? kBlockKinds[0] : kind;
    for (const Size& size : sizes) check_random(kind, other, size, seed, {.stride = 5});
  }
}

TEST_CASE("gemm blocks: blocks of k begin with blocks of scales") {
  // Blocks of k hold at most 4096 values, or 2048 in f32; 2 * 1057 and 2 * 2217 would not be cut at
  // a multiple of 32.
  std::uint64_t seed = 2000;
  for (const Kind& kind : kBlockKinds) {
    if (kind.dtype == DType::e5m2) continue;
    check_random(kind, kind, {19, 35, 2114}, seed, {.stride = 3});
    check_random(kind, kind, {19, 35, 4434}, seed, {.stride = 3});
    check_random(kind, kind, {1030, 1, 2500}, seed, {.stride = 17});
    check_random(kind, kind, {1, 1061, 2047}, seed, {.stride = 17});
  }
}

TEST_CASE("gemm blocks: threads change no bit") {
  const int threads = num_threads();
  std::uint64_t seed = 3000;
  const Size size{45, 1100, 139};
  for (const Kind& kind : kBlockKinds) {
    const Kind other = kind.dtype == DType::e5m2 ? kBlockKinds[0] : kind;
    const Operand a = random_operand(kind, size.m, size.k, ++seed);
    const Operand b = random_operand(other, size.n, size.k, ++seed);
    const Laid laid_a = a.as_a(false);
    const Laid laid_b = b.as_b(true);
    std::optional<Memory> first;
    std::vector<float> amaxes;
    for (const cpu::Isa isa : cpu::available_isas()) {
      for (const int count : {1, 2, 3}) {
        set_num_threads(count);
        Memory d(DType::bf16, size.m * size.n);
        Amax amax;
        cpu::gemm(isa, {.m = size.m,
                        .n = size.n,
                        .k = size.k,
                        .a = laid_a.operand,
                        .b = laid_b.operand,
                        .d = {.data = d.data(), .dtype = DType::bf16, .amax = &amax}});
        if (!first) first = d;
        INFO(cpu::to_string(isa) << " " << describe(kind) << ", threads: " << count);
        CHECK(d.bytes() == first->bytes());
        amaxes.push_back(amax.value);
      }
    }
    CHECK(amaxes.front() > 0.0F);
    CHECK(std::count(amaxes.begin(), amaxes.end(), amaxes.front()) ==
          static_cast<std::ptrdiff_t>(amaxes.size()));
    set_num_threads(threads);
    check_product(a, b, {.stride = 1009});
  }
}

TEST_CASE("gemm blocks: all that the Hadamard transform made of k is contracted") {
  std::uint64_t seed = 4000;
  const Kind kind{DType::e2m1, ScalingMode::nvfp4_1d};
  for (const std::int64_t k : {1, 15, 16, 17, 100, 2049}) {
    const Operand a = random_operand(kind, 21, k, ++seed);
    const Operand b = random_operand(kind, 40, k, ++seed);
    check_product(a, b, {.hadamard = true});
    check_product(a, b);
  }
}

/// Values 0 to 3 with scales 1, 2 and 4, counted apart from the tables of codes.
struct Integers {
  Operand operand;
  std::vector<std::int64_t> values;
};

std::uint32_t code_of_power(DType dtype, std::uint32_t power) {
  if (dtype == DType::f32) return (127 + power) << 23;
  return dtype == DType::e8m0 ? 127 + power : (7 + power) << 3;
}

Integers random_integers(const Kind& kind, std::int64_t rows, std::int64_t k, std::uint64_t seed) {
  Integers result{Operand(kind, rows, k), {}};
  Operand& operand = result.operand;
  const ScalingBlock block = scaling_block(kind.mode);
  std::mt19937_64 engine(seed);
  std::vector<std::int64_t> scales;
  for (std::int64_t r = 0; r < operand.row_blocks; ++r) {
    for (std::int64_t b = 0; b < operand.k_blocks; ++b) {
      const auto power = static_cast<std::uint32_t>(engine() % 3);
      operand.scale(r, b) = code_of_power(scale_dtype(kind.mode), power);
      scales.push_back(std::int64_t{1} << power);
    }
  }
  constexpr std::uint32_t kE2m1[] = {0, 2, 4, 5};
  constexpr std::uint32_t kE4m3[] = {0, 0x38, 0x40, 0x44};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t at = 0; at < k; ++at) {
      const std::uint64_t value = engine() % 4;
      operand.code(r, at) = (kind.dtype == DType::e2m1 ? kE2m1 : kE4m3)[value];
      const std::int64_t scale = r / block.across * operand.k_blocks + at / block.along;
      result.values.push_back(static_cast<std::int64_t>(value) * scales[index(scale)]);
    }
  }
  return result;
}

TEST_CASE("gemm blocks: integers are exact") {
  const Size size{23, 41, 300};  // sums are at most 300 * 12 * 12
  for (const Kind& kind : kBlockKinds) {
    if (kind.wide || kind.dtype == DType::e5m2) continue;
    const Integers a = random_integers(kind, size.m, size.k, 17);
    const Integers b = random_integers(kind, size.n, size.k, 18);
    std::vector<float> expected;
    for (std::int64_t i = 0; i < size.m * size.n; ++i) {
      const std::int64_t* row = a.values.data() + i / size.n * size.k;
      const std::int64_t* col = b.values.data() + i % size.n * size.k;
      expected.push_back(
          static_cast<float>(std::inner_product(row, row + size.k, col, std::int64_t{0})));
    }
    const Laid laid_a = a.operand.as_a(false);
    const Laid laid_b = b.operand.as_b(true);
    INFO(describe(kind));
    check_on_every_isa(
        {.m = size.m, .n = size.n, .k = size.k, .a = laid_a.operand, .b = laid_b.operand},
        expected);
  }
}

}  // namespace
}  // namespace tape8
