#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/error.hpp>

#include "backend/cpu/gemm.hpp"
#include "backend/gemm_block_support.hpp"
#include "backend/gemm_isas.hpp"

// Each value times each scale, the scales that are no numbers, and what is refused.

namespace tape8 {
namespace {

using namespace gemm_test;

/// Products with ones, which are bf16 or f32, in both layouts on both sides.
void check_values(const Operand& tested, DType one) {
  const Kind kind{one, ScalingMode::none, one == DType::f32};
  Operand other(kind, 1, tested.k);
  for (std::int64_t k = 0; k < tested.k; ++k) {
    other.code(0, k) = one == DType::f32 ? std::bit_cast<std::uint32_t>(1.0F) : encode(one, 1.0);
  }
  const std::vector<float> values = tested.values(tested.k);
  const std::vector<float> ones = other.values(tested.k);
  const bool narrow = !tested.kind.wide && !kind.wide;
  std::vector<float> expected;
  for (std::int64_t r = 0; r < tested.rows; ++r) {
    expected.push_back(exact_sum(values, ones, {tested.rows, 1, tested.k}, narrow, r, 0));
  }
  for (const bool as_a : {true, false}) {
    for (const bool k_last : {true, false}) {
      if (!tested.lies(k_last)) continue;
      const Laid laid = tested.lay(k_last, as_a != k_last);
      const Laid laid_one = as_a ? other.as_b(false) : other.as_a(false);
      INFO(describe(tested.kind) << " with " << to_string(one) << (as_a ? " as a" : " as b")
                                 << (k_last ? ", k last" : ", k first"));
      check_on_every_isa({.m = as_a ? tested.rows : 1,
                          .n = as_a ? 1 : tested.rows,
                          .k = tested.k,
                          .a = as_a ? laid.operand : laid_one.operand,
                          .b = as_a ? laid_one.operand : laid.operand},
                         expected);
    }
  }
}

/// Every code with every scale; a row each.
Operand all_pairs(const Kind& kind, const std::vector<std::uint32_t>& scales) {
  const std::int64_t codes = std::int64_t{1} << bits(kind.dtype);
  const std::int64_t across = scaling_block(kind.mode).across;
  // 2-D blocks of one code: a block of rows for each scale would not hold them all.
  Operand operand(kind, static_cast<std::int64_t>(scales.size()) * codes * across, 1);
  for (std::int64_t r = 0; r < operand.rows; ++r) {
    operand.code(r, 0) = static_cast<std::uint32_t>(r / across % codes);
    operand.scale(r / across, 0) = scales[index(r / across / codes)];
  }
  return operand;
}

std::vector<std::uint32_t> all_bytes() {
  std::vector<std::uint32_t> bytes;
  for (std::uint32_t code = 0; code < 256; ++code) bytes.push_back(code);
  return bytes;
}

TEST_CASE("gemm blocks: e8m0 scales are powers of two from 2^-127 on, and NaN") {
  // The exact values of a few, apart from any table.
  Operand few({DType::e4m3, ScalingMode::mxfp8_1d}, 4, 1);
  const std::uint32_t codes[] = {0x08, 0x08, 0x7E, 0x38};  // 2^-6, 2^-6, 448, 1
  const std::uint32_t scales[] = {0, 7, 0, 255};
  const float expected[] = {0x1p-133F, 0x1p-126F, 0x1.Cp-119F, kNan};
  for (std::int64_t r = 0; r < 4; ++r) {
    few.code(r, 0) = codes[r];
    few.scale(r, 0) = scales[r];
    CHECK(same_bits(few.value(r, 0), expected[r]));
  }
  check_values(few, DType::f32);
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    const Operand operand = all_pairs({dtype, ScalingMode::mxfp8_1d}, all_bytes());
    check_values(operand, DType::bf16);
    check_values(operand, DType::f32);
  }
}

TEST_CASE("gemm blocks: a bf16 denormal leaves its neighbour alone") {
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    for (const std::uint32_t scale : {0U, 5U}) {
      Operand operand({dtype, ScalingMode::mxfp8_1d}, 256 * 256, 2);
      for (std::int64_t r = 0; r < operand.rows; ++r) {
        operand.code(r, 0) = static_cast<std::uint32_t>(r % 256);
        operand.code(r, 1) = static_cast<std::uint32_t>(r / 256);
        operand.scale(r, 0) = scale;
      }
      check_values(operand, DType::bf16);
    }
  }
}

TEST_CASE("gemm blocks: e4m3 scales of e2m1 values") {
  for (const ScalingMode mode : {ScalingMode::nvfp4_1d, ScalingMode::nvfp4_2d}) {
    const Operand operand = all_pairs({DType::e2m1, mode}, all_bytes());
    check_values(operand, DType::bf16);
    check_values(operand, DType::f32);
  }
}

TEST_CASE("gemm blocks: f32 scales") {
  std::vector<std::uint32_t> powers, others;
  for (const float power : {0x1p-149F, 0x1p-136F, 0x1p-127F, 0x1p-126F, 0x1p-118F, 1.0F, 0x1p112F,
                            0x1p118F, 0x1p127F}) {
    powers.push_back(std::bit_cast<std::uint32_t>(power));
  }
  for (const float other :
       {0.3F, 0x1.FFFFFEp127F, 0x1.000002p-126F, 0x1.8p-140F, 0.0F, kInf, kNan}) {
    others.push_back(std::bit_cast<std::uint32_t>(other));
  }
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    for (const ScalingMode mode : {ScalingMode::float8_block_1d, ScalingMode::float8_block_2d}) {
      for (const DType one : {DType::bf16, DType::f32}) {
        check_values(all_pairs({dtype, mode}, powers), one);
        for (const std::uint32_t other : others) {
          check_values(all_pairs({dtype, mode, true}, {other}), one);
        }
      }
    }
  }
}

TEST_CASE("gemm blocks: the NaN of a scale reaches its block's sums and no others") {
  for (const Kind& kind : kBlockKinds) {
    if (kind.wide) continue;
    const Size size{150, 35, 300};
    Operand a = random_operand(kind, size.m, size.k, 7);
    const Operand b = random_operand({DType::bf16}, size.n, size.k, 8);
    const DType dtype = scale_dtype(kind.mode);
    // A block of zeros too: zero times NaN.
    const std::int64_t row_block = 1;
    a.scale(row_block, a.k_blocks - 1) = dtype == DType::f32 ? 0x7FC00000U : encode(dtype, kNan);
    const std::int64_t across = scaling_block(kind.mode).across;
    for (std::int64_t r = across; r < std::min(size.m, 2 * across); ++r) {
      a.code(r, size.k - 1) = 0;
    }
    for (const bool transposed : {false, true}) {
      if (!a.lies(!transposed)) continue;
      const Laid laid_a = a.as_a(transposed);
      const Laid laid_b = b.as_b(false);
      for (const cpu::Isa isa : cpu::available_isas()) {
        Memory d(DType::f32, size.m * size.n);
        Amax amax;
        cpu::gemm(isa, {.m = size.m,
                        .n = size.n,
                        .k = size.k,
                        .a = laid_a.operand,
                        .b = laid_b.operand,
                        .d = {.data = d.data(), .amax = &amax}});
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < size.m * size.n; ++i) {
          wrong += std::isnan(d.get(i)) == (i / size.n / across == row_block) ? 0 : 1;
        }
        INFO(cpu::to_string(isa) << " " << describe(kind) << (transposed ? " T" : " N"));
        CHECK(wrong == 0);
        CHECK(std::isnan(amax.value));
      }
    }
  }
}

TEST_CASE("gemm blocks: the scale of the tensor is a factor of the sums") {
  const Kind kind{DType::e2m1, ScalingMode::nvfp4_1d};
  const Operand a = random_operand(kind, 9, 70, 1);
  const Operand b = random_operand(kind, 21, 70, 2);
  const ScaleInv scale_a{0.37F}, scale_b{1.7F};
  Laid laid_a = a.as_a(false);
  Laid laid_b = b.as_b(true);
  laid_a.operand.scale_inv = &scale_a;
  laid_b.operand.scale_inv = &scale_b;
  const std::vector<float> rows = a.values(a.k), cols = b.values(b.k);
  std::vector<float> expected;
  for (std::int64_t i = 0; i < a.rows * b.rows; ++i) {
    const float sum = exact_sum(rows, cols, {a.rows, b.rows, a.k}, true, i / b.rows, i % b.rows);
    expected.push_back(sum * (scale_a.value * scale_b.value));
  }
  check_on_every_isa({.m = a.rows, .n = b.rows, .k = a.k, .a = laid_a.operand, .b = laid_b.operand},
                     expected);
}

TEST_CASE("gemm blocks: nothing to contract, nothing to write") {
  for (const Kind& kind : kBlockKinds) {
    if (kind.wide || kind.dtype == DType::e5m2) continue;
    for (const Size& size : {Size{3, 5, 0}, Size{0, 5, 40}, Size{3, 0, 40}}) {
      const GemmOperand a{.dtype = kind.dtype, .scaling_mode = kind.mode};
      GemmOperand b = a;
      b.transposed = true;
      const Laid laid_a = Operand(kind, size.m, size.k).as_a(false);
      const Laid laid_b = Operand(kind, size.n, size.k).as_b(true);
      Memory d(DType::f32, size.m * size.n);
      cpu::gemm(cpu::available_isas().front(), {.m = size.m,
                                                .n = size.n,
                                                .k = size.k,
                                                .a = size.m * size.k == 0 ? a : laid_a.operand,
                                                .b = size.n * size.k == 0 ? b : laid_b.operand,
                                                .d = {.data = d.data()}});
      INFO(describe(kind));
      CHECK(differing(d, std::vector<float>(index(size.m * size.n), 0.0F)) == 0);
    }
  }
}

TEST_CASE("gemm blocks: what is not taken throws, by rule and by name") {
  const std::vector<unsigned char> bytes(256);
  float d[4] = {7.0F, 7.0F, 7.0F, 7.0F};
  const auto operand = [&](DType dtype, ScalingMode mode, bool transposed) {
    return GemmOperand{.data = bytes.data(),
                       .dtype = dtype,
                       .transposed = transposed,
                       .scaling_mode = mode,
                       .block_scale_inv = is_block_scaled(mode) ? bytes.data() : nullptr};
  };
  const auto message = [&](const GemmOperand& a, const GemmOperand& b, DType out = DType::f32) {
    try {
      cpu::gemm(cpu::available_isas().front(),
                {.m = 2, .n = 2, .k = 2, .a = a, .b = b, .d = {.data = d, .dtype = out}});
    } catch (const UnsupportedError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const GemmOperand bf16_a = operand(DType::bf16, ScalingMode::none, false);
  const GemmOperand bf16_b = operand(DType::bf16, ScalingMode::none, true);
  const GemmOperand mxfp8 = operand(DType::e4m3, ScalingMode::mxfp8_1d, false);
  const GemmOperand nvfp4_a = operand(DType::e2m1, ScalingMode::nvfp4_1d, false);
  const GemmOperand nvfp4_b = operand(DType::e2m1, ScalingMode::nvfp4_1d, true);

  CHECK(message(operand(DType::e2m1, ScalingMode::none, false), bf16_b) ==
        "cpu: gemm: e2m1 operands must be nvfp4_1d or nvfp4_2d: got none");
  CHECK(message(bf16_a, operand(DType::e2m1, ScalingMode::mxfp8_1d, true)) ==
        "cpu: gemm: e2m1 operands must be nvfp4_1d or nvfp4_2d: got mxfp8_1d");
  CHECK(message(operand(DType::e4m3, ScalingMode::nvfp4_2d, false), bf16_b) ==
        "cpu: gemm: nvfp4_2d operands must be e2m1: got e4m3");
  CHECK(message(operand(DType::bf16, ScalingMode::mxfp8_1d, false), bf16_b) ==
        "cpu: gemm: mxfp8_1d operands must be e4m3 or e5m2: got bf16");
  CHECK(message(bf16_a, operand(DType::f32, ScalingMode::float8_block_2d, false)) ==
        "cpu: gemm: float8_block_2d operands must be e4m3 or e5m2: got f32");
  CHECK(message(operand(DType::e2m1, ScalingMode::nvfp4_1d, true), bf16_b) ==
        "cpu: gemm: nvfp4 memory must have k last: got a transposed");
  CHECK(message(bf16_a, operand(DType::e2m1, ScalingMode::nvfp4_2d, false)) ==
        "cpu: gemm: nvfp4 memory must have k last: got b not transposed");
  CHECK(message(operand(DType::e5m2, ScalingMode::mxfp8_1d, false),
                operand(DType::e5m2, ScalingMode::mxfp8_1d, false)) ==
        "cpu: gemm: a and b must not both be e5m2: got e5m2 and e5m2");
  CHECK(message(mxfp8, operand(DType::f64, ScalingMode::none, false)) ==
        "cpu: gemm: a, b and d must all be f64 where one is: got e4m3, f64 and f32");
  CHECK(message(operand(DType::f64, ScalingMode::mxfp8_1d, false),
                operand(DType::f64, ScalingMode::none, false),
                DType::f64) == "cpu: gemm: mxfp8_1d operands must be e4m3 or e5m2: got f64");
  CHECK(message(mxfp8, mxfp8, DType::e2m1) ==
        "cpu: gemm: d must be f64, f32, bf16, f16, e4m3 or e5m2: got e2m1");

  GemmOperand scaleless = mxfp8;
  scaleless.block_scale_inv = nullptr;
  CHECK(message(scaleless, bf16_b) ==
        "cpu: gemm: mxfp8_1d operands must have a block_scale_inv: got none");

  GemmOperand transformed_a = nvfp4_a, transformed_b = nvfp4_b, transformed_mxfp8 = mxfp8;
  transformed_a.hadamard = transformed_b.hadamard = transformed_mxfp8.hadamard = true;
  CHECK(message(transformed_a, nvfp4_b) ==
        "cpu: gemm: both operands must be transformed, or neither: got a alone");
  CHECK(message(nvfp4_a, transformed_b) ==
        "cpu: gemm: both operands must be transformed, or neither: got b alone");
  CHECK(message(transformed_a, transformed_mxfp8) ==
        "cpu: gemm: transformed operands must be nvfp4_1d or nvfp4_2d: got mxfp8_1d");
  for (const float value : d) CHECK(value == 7.0F);

  CHECK(message(nvfp4_a, nvfp4_b).empty());
  CHECK(message(transformed_a, transformed_b).empty());
  CHECK(message(mxfp8, operand(DType::e5m2, ScalingMode::mxfp8_1d, true)).empty());
}

}  // namespace
}  // namespace tape8
