// What is decided of a matmul before any GPU is asked.

#include "backend/cuda/gemm_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace tape8::test {
namespace {

using cuda::GemmPlan;
using cuda::LibraryMatrix;
using cuda::Preparation;

constexpr int kCapabilities[] = {80, 89, 90, 100, 103, 120};

/// Memory that is never read: where it begins alone counts.
alignas(16) std::byte memory[64];
const ScaleInv kScaleInv{};

GemmOperand operand(DType dtype, ScalingMode mode, bool transposed) {
  GemmOperand result{
      .data = memory, .dtype = dtype, .transposed = transposed, .scaling_mode = mode};
  if (is_block_scaled(mode)) result.block_scale_inv = memory;
  if (mode == ScalingMode::per_tensor || is_nvfp4(mode)) result.scale_inv = &kScaleInv;
  return result;
}

/// [m, k] x [k, n], both with k last in memory.
GemmArgs problem(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, ScalingMode mode,
                 DType d = DType::bf16) {
  return {.m = m,
          .n = n,
          .k = k,
          .a = operand(dtype, mode, false),
          .b = operand(dtype, mode, true),
          .d = {.data = memory, .dtype = d}};
}

GemmArgs fp8(std::int64_t m, std::int64_t n, std::int64_t k, DType d = DType::bf16) {
  return problem(m, n, k, DType::e4m3, ScalingMode::per_tensor, d);
}

GemmArgs bf16(std::int64_t m, std::int64_t n, std::int64_t k, DType d = DType::bf16) {
  return problem(m, n, k, DType::bf16, ScalingMode::none, d);
}

struct NativeCase {
  const char* what;
  GemmOperand a, b;
  std::vector<int> capabilities;
};

TEST_CASE("cuda: gemm plan: what a GPU multiplies as it is") {
  using enum ScalingMode;
  const auto a = [](DType dtype, ScalingMode mode) { return operand(dtype, mode, false); };
  const auto b = [](DType dtype, ScalingMode mode) { return operand(dtype, mode, true); };
  const NativeCase cases[] = {
      {"fp8", a(DType::e4m3, per_tensor), b(DType::e4m3, per_tensor), {89, 90, 100, 103, 120}},
      {"fp8 dgrad",
       a(DType::e5m2, per_tensor),
       b(DType::e4m3, per_tensor),
       {89, 90, 100, 103, 120}},
      {"fp8 without scales", a(DType::e4m3, none), b(DType::e5m2, none), {89, 90, 100, 103, 120}},
      {"e5m2 x e5m2", a(DType::e5m2, per_tensor), b(DType::e5m2, per_tensor), {}},
      {"bf16 x fp8", a(DType::bf16, none), b(DType::e4m3, per_tensor), {}},
      {"fp8 x f32", a(DType::e4m3, per_tensor), b(DType::f32, none), {}},
      {"mxfp8", a(DType::e5m2, mxfp8_1d), b(DType::e4m3, mxfp8_1d), {100, 103, 120}},
      {"mxfp8 x fp8", a(DType::e4m3, mxfp8_1d), b(DType::e4m3, per_tensor), {}},
      {"mxfp8 x Float8 block", a(DType::e4m3, mxfp8_1d), b(DType::e4m3, float8_block_1d), {}},
      {"nvfp4", a(DType::e2m1, nvfp4_1d), b(DType::e2m1, nvfp4_2d), {100, 103, 120}},
      {"nvfp4 x mxfp8", a(DType::e2m1, nvfp4_1d), b(DType::e4m3, mxfp8_1d), {}},
      {"1d x 2d", a(DType::e4m3, float8_block_1d), b(DType::e4m3, float8_block_2d), {90}},
      {"2d x 1d", a(DType::e4m3, float8_block_2d), b(DType::e5m2, float8_block_1d), {90}},
      {"1d x 1d", a(DType::e4m3, float8_block_1d), b(DType::e4m3, float8_block_1d), {90}},
      {"2d x 2d", a(DType::e4m3, float8_block_2d), b(DType::e4m3, float8_block_2d), {}},
  };
  for (const NativeCase& one : cases) {
    for (const int capability : kCapabilities) {
      CAPTURE(one.what);
      CAPTURE(capability);
      GemmArgs args = fp8(32, 32, 32);
      args.a = one.a;
      args.b = one.b;
      const GemmPlan plan = cuda::plan_gemm(args, capability);
      const bool native = std::ranges::count(one.capabilities, capability) != 0;
      CHECK(plan.native == native);
      CHECK((plan.why_decoded == nullptr) == native);
      if (native) {
        CHECK(plan.problem.a.dtype == one.a.dtype);
        CHECK(plan.problem.b.dtype == one.b.dtype);
        continue;
      }
      const bool exact = one.a.scaling_mode != float8_block_1d &&
                         one.a.scaling_mode != float8_block_2d &&
                         one.b.scaling_mode != float8_block_1d && one.b.dtype != DType::f32;
      const DType decoded = exact ? DType::bf16 : DType::f32;
      CHECK(plan.problem.a == LibraryMatrix{decoded, none, false});
      CHECK(plan.problem.b == LibraryMatrix{decoded, none, true});
      CHECK((plan.a.preparation == Preparation::decode) == (one.a.dtype != decoded));
    }
  }
}

TEST_CASE("cuda: gemm plan: 16 bits and more are taken as they are, others' types made one") {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
    const GemmPlan plan = cuda::plan_gemm(problem(32, 32, 32, dtype, ScalingMode::none, dtype), 80);
    CHECK(plan.problem.a.dtype == dtype);
    CHECK(plan.a.preparation == Preparation::none);
    CHECK(plan.b.preparation == Preparation::none);
    CHECK(plan.why_decoded == nullptr);
    CHECK(plan.why_product == nullptr);
  }
  GemmArgs mixed = bf16(32, 32, 32);
  mixed.b.dtype = DType::f16;
  const GemmPlan plan = cuda::plan_gemm(mixed, 90);
  CHECK(plan.problem.a.dtype == DType::f32);
  CHECK(plan.b.preparation == Preparation::decode);
}

TEST_CASE("cuda: gemm plan: FP8 with k last, but on 10.x") {
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      GemmArgs args = fp8(32, 48, 64);
      args.a.transposed = a_transposed;
      args.b.transposed = b_transposed;
      for (const int capability : {89, 90, 120}) {
        const GemmPlan plan = cuda::plan_gemm(args, capability);
        CHECK_FALSE(plan.problem.a.transposed);
        CHECK(plan.problem.b.transposed);
        CHECK(plan.a.preparation == (a_transposed ? Preparation::transpose : Preparation::none));
        CHECK(plan.b.preparation == (b_transposed ? Preparation::none : Preparation::transpose));
        CHECK(plan.a.rows == 32);
        CHECK(plan.a.cols == 64);
        CHECK(plan.b.rows == 48);
        CHECK(plan.b.cols == 64);
      }
      const GemmPlan plan = cuda::plan_gemm(args, 100);
      CHECK(plan.problem.a.transposed == a_transposed);
      CHECK(plan.problem.b.transposed == b_transposed);
      CHECK(plan.a.preparation == Preparation::none);
      CHECK(plan.b.preparation == Preparation::none);
    }
  }
}

TEST_CASE("cuda: gemm plan: rows of memory are padded to 16 bytes, and no more is") {
  // m of an operand with k last is free.
  GemmPlan plan = cuda::plan_gemm(fp8(17, 32, 32), 90);
  CHECK(plan.problem.m == 17);
  CHECK(plan.a.preparation == Preparation::none);
  CHECK(plan.why_product == nullptr);
  // n is d's rows: 8 values of bf16 or 4 of f32.
  CHECK(cuda::plan_gemm(fp8(17, 40, 32), 90).why_product == nullptr);
  CHECK(cuda::plan_gemm(fp8(17, 36, 32, DType::f32), 90).why_product == nullptr);
  plan = cuda::plan_gemm(fp8(17, 37, 32), 90);
  CHECK(plan.why_product != nullptr);
  CHECK(plan.problem.n == 40);
  CHECK(plan.b.rows == 40);
  CHECK(plan.b.preparation == Preparation::pad);
  // k: 16 values of FP8, 8 of bf16.
  plan = cuda::plan_gemm(fp8(16, 32, 40), 90);
  CHECK(plan.problem.k == 48);
  CHECK(plan.a.preparation == Preparation::pad);
  CHECK(plan.a.cols == 48);
  plan = cuda::plan_gemm(bf16(16, 32, 40), 90);
  CHECK(plan.problem.k == 40);
  CHECK(plan.a.preparation == Preparation::none);
  // With k first it is m and n that are padded.
  GemmArgs args = fp8(17, 33, 40);
  args.a.transposed = true;
  args.b.transposed = false;
  plan = cuda::plan_gemm(args, 100);
  CHECK(plan.problem.m == 32);
  CHECK(plan.problem.n == 48);
  CHECK(plan.problem.k == 40);
  CHECK(plan.a.rows == 40);
  CHECK(plan.a.cols == 32);
}

TEST_CASE("cuda: gemm plan: block scales ask for whole blocks") {
  CHECK(cuda::plan_gemm(problem(16, 16, 48, DType::e4m3, ScalingMode::mxfp8_1d), 100).problem.k ==
        64);
  CHECK(cuda::plan_gemm(problem(16, 16, 48, DType::e2m1, ScalingMode::nvfp4_1d), 100).problem.k ==
        64);
  GemmArgs transformed = problem(16, 16, 50, DType::e2m1, ScalingMode::nvfp4_1d);
  transformed.a.hadamard = transformed.b.hadamard = true;
  GemmPlan plan = cuda::plan_gemm(transformed, 100);
  CHECK(plan.a.stored.cols == 64);
  CHECK(plan.a.preparation == Preparation::none);
  plan = cuda::plan_gemm(problem(17, 16, 128, DType::e4m3, ScalingMode::float8_block_1d), 90);
  CHECK(plan.problem.m == 20);
  CHECK(plan.why_product != nullptr);
}

TEST_CASE("cuda: gemm plan: the library writes d where it can") {
  const auto is_direct = [](const GemmArgs& args, int capability = 90) {
    return cuda::plan_gemm(args, capability).why_product == nullptr;
  };
  for (const DType d : {DType::f32, DType::bf16, DType::f16}) {
    CHECK(is_direct(fp8(32, 32, 32, d)));
    CHECK(is_direct(problem(32, 32, 32, DType::e2m1, ScalingMode::nvfp4_1d, d), 100));
    CHECK(is_direct(bf16(32, 32, 32, d)) == (d != DType::f16));
    const GemmArgs f16 = problem(32, 32, 32, DType::f16, ScalingMode::none, d);
    CHECK(is_direct(f16) == (d != DType::bf16));
    CHECK(is_direct(fp8(32, 32, 32, d), 80) == (d != DType::f16));
  }
  CHECK_FALSE(is_direct(fp8(32, 32, 32, DType::e4m3)));
  GemmArgs args = fp8(32, 32, 32);
  Amax amax;
  args.d.amax = &amax;
  CHECK_FALSE(is_direct(args));
  args.d = {.dtype = DType::bf16};
  CHECK_FALSE(is_direct(args));
  args.d = {.data = memory + 2, .dtype = DType::bf16};
  CHECK_FALSE(is_direct(args));
}

TEST_CASE("cuda: gemm plan: a bias is f32, which the library takes with d of f32 alone") {
  const auto plan_of = [](GemmArgs args, int capability = 90) {
    args.bias = memory;
    return cuda::plan_gemm(args, capability);
  };
  CHECK(plan_of(bf16(32, 32, 32, DType::f32)).problem.has_bias);
  CHECK(plan_of(fp8(32, 32, 32, DType::f32), 80).problem.has_bias);
  for (const GemmArgs& args : {bf16(32, 32, 32), fp8(32, 32, 32), fp8(32, 32, 32, DType::f32)}) {
    CHECK_FALSE(plan_of(args).problem.has_bias);
    CHECK(plan_of(args).why_product != nullptr);
  }
  const GemmArgs nvfp4 = problem(32, 32, 32, DType::e2m1, ScalingMode::nvfp4_1d, DType::f32);
  CHECK_FALSE(plan_of(nvfp4, 100).problem.has_bias);
  GemmArgs off = bf16(32, 32, 32, DType::f32);
  off.bias = memory + 4;
  CHECK_FALSE(cuda::plan_gemm(off, 90).problem.has_bias);
}

TEST_CASE("cuda: gemm plan: who multiplies by the tensors' scales") {
  GemmPlan plan = cuda::plan_gemm(fp8(32, 32, 32), 90);
  CHECK(plan.problem.a.scaling_mode == ScalingMode::per_tensor);
  CHECK_FALSE(plan.problem.device_alpha);
  plan = cuda::plan_gemm(fp8(32, 32, 32), 80);
  CHECK(plan.problem.a.scaling_mode == ScalingMode::none);
  CHECK(plan.problem.device_alpha);
  plan = cuda::plan_gemm(problem(32, 32, 32, DType::e2m1, ScalingMode::nvfp4_1d), 100);
  CHECK(plan.problem.device_alpha);
  // The epilogue, if there is one.
  plan = cuda::plan_gemm(fp8(32, 33, 32), 90);
  CHECK(plan.problem.a.scaling_mode == ScalingMode::none);
  CHECK_FALSE(plan.problem.device_alpha);
  CHECK_FALSE(cuda::plan_gemm(bf16(32, 32, 32), 90).problem.device_alpha);
}

TEST_CASE("cuda: gemm plan: operands that begin off 16 bytes are copied") {
  GemmArgs args = fp8(32, 32, 32);
  args.a.data = memory + 8;
  const GemmPlan plan = cuda::plan_gemm(args, 90);
  CHECK(plan.a.preparation == Preparation::pad);
  CHECK(plan.b.preparation == Preparation::none);
}

TEST_CASE("cuda: gemm plan: it says what it does and why") {
  GemmArgs args = fp8(32, 48, 64);
  args.b.transposed = false;
  CHECK(describe(cuda::plan_gemm(args, 90)) ==
        "32x48x64 e4m3 per_tensor x e4m3 per_tensor transposed -> bf16; a as it lies, b "
        "transposed");
  args.bias = memory;
  CHECK(describe(cuda::plan_gemm(args, 80)) ==
        "32x48x64 bf16 x bf16 -> f32; a decoded, b decoded; decoded: FP8 needs compute capability "
        "8.9; own epilogue: the library takes no f32 bias with d of that type");
  const auto formats = [](int capability) { return cuda::describe_formats(capability); };
  CHECK(formats(80) == "native matmuls: bf16, decoded: FP8, MXFP8, Float8 block, NVFP4");
  CHECK(formats(89) == "native matmuls: bf16, FP8, decoded: MXFP8, Float8 block, NVFP4");
  CHECK(formats(90) == "native matmuls: bf16, FP8, Float8 block, decoded: MXFP8, NVFP4");
  CHECK(formats(120) == "native matmuls: bf16, FP8, MXFP8, NVFP4, decoded: Float8 block");
}

}  // namespace
}  // namespace tape8::test
