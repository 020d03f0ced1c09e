// Matmuls on emulated GPUs of every compute capability, against float64 sums of the same operands;
// and that cuBLASLt was given them in the format that it should have been.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <tape8/core/error.hpp>

#include "backend/gemm_block_support.hpp"
#include "cuda/both_backends.hpp"
#include "cuda/matmul_log.hpp"

namespace tape8::test {
namespace {

using gemm_test::Kind;
using gemm_test::Laid;
using gemm_test::Operand;
using gemm_test::Size;

/// Sums of some hundred products in f32.
constexpr double kLimit = 1e-6;

constexpr int kGpus = 5;

/// Memory of a GPU that begins `offset` bytes after what the allocator gives.
Tensor uploaded(const std::vector<std::uint8_t>& bytes, Device device, std::int64_t offset = 0) {
  std::vector<std::uint8_t> all(static_cast<std::size_t>(offset), 0xFF);
  all.insert(all.end(), bytes.begin(), bytes.end());
  const auto count = static_cast<std::int64_t>(all.size());
  return Tensor::from(all, {count}).to(device).slice(0, offset, count);
}

/// An operand's memory on a GPU.
struct OnGpu {
  OnGpu(const Laid& laid, Device device, std::int64_t offset = 0)
      : data(uploaded(laid.data, device, offset)),
        scales(uploaded(laid.scales, device)),
        operand(laid.operand) {
    operand.data = data.data();
    if (operand.block_scale_inv != nullptr) operand.block_scale_inv = scales.data();
  }

  Tensor data, scales;
  GemmOperand operand;
};

/// factor * a * b + bias in float64.
std::vector<double> product(const Operand& a, const Operand& b, std::int64_t depth,
                            double factor = 1.0, const std::vector<double>& bias = {}) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < b.rows; ++j) {
      double sum = 0.0;
      for (std::int64_t at = 0; at < depth; ++at) {
        sum += static_cast<double>(a.value(i, at)) * static_cast<double>(b.value(j, at));
      }
      result.push_back(factor * sum + (bias.empty() ? 0.0 : bias[static_cast<std::size_t>(j)]));
    }
  }
  return result;
}

bool is_float8_block(const Kind& kind) {
  return kind.mode == ScalingMode::float8_block_1d || kind.mode == ScalingMode::float8_block_2d;
}

/// Whether a GPU multiplies two kinds as they are: the table of docs/cuda.md.
bool is_native(const Kind& a, const Kind& b, int capability) {
  if (is_fp8(a.dtype) && is_fp8(b.dtype)) {
    if (a.mode == ScalingMode::per_tensor && b.mode == a.mode) return capability >= 89;
    if (a.mode == ScalingMode::mxfp8_1d && b.mode == a.mode) return capability >= 100;
    if (!is_float8_block(a) || !is_float8_block(b)) return false;
    return capability == 90 &&
           (a.mode == ScalingMode::float8_block_1d || b.mode == ScalingMode::float8_block_1d);
  }
  return is_nvfp4(a.mode) && is_nvfp4(b.mode) && capability >= 100;
}

/// What both operands are converted to where they are not.
DType converted(const Kind& a, const Kind& b) {
  const auto is_exact = [](const Kind& kind) {
    return kind.dtype != DType::f32 && kind.dtype != DType::f16 && !is_float8_block(kind);
  };
  if (a.dtype == DType::f16 && b.dtype == DType::f16) return DType::f16;
  return is_exact(a) && is_exact(b) ? DType::bf16 : DType::f32;
}

void check_path(const cuda_emulation::Matmul& matmul, const Kind& a, const Kind& b,
                int capability) {
  const bool native = is_native(a, b, capability);
  // The library's first is b.
  CHECK(matmul.b.type == library_type(native ? a.dtype : converted(a, b)));
  CHECK(matmul.a.type == library_type(native ? b.dtype : converted(a, b)));
  CHECK(matmul.b_mode == library_mode(native ? a.mode : ScalingMode::none));
  CHECK(matmul.a_mode == library_mode(native ? b.mode : ScalingMode::none));
  CHECK_FALSE(matmul.fast_accumulation);
}

constexpr Size kSizes[] = {{1, 1, 1}, {17, 33, 50}, {48, 32, 64}, {5, 130, 129}, {132, 36, 272}};

/// In each layout that the operands have, on every GPU.
void check_product(const Kind& a_kind, const Kind& b_kind, const Size& size, std::uint64_t seed,
                   bool hadamard = false) {
  const std::int64_t m = size.m, n = size.n, k = size.k;
  const Operand a = gemm_test::random_operand(a_kind, m, k, seed);
  const Operand b = gemm_test::random_operand(b_kind, n, k, seed + 1);
  const std::vector<double> expected = product(a, b, hadamard ? a.padded_k : k);
  for (const int layout : {0, 1, 2, 3}) {
    const bool transpose_a = (layout & 2) != 0;
    const bool transpose_b = (layout & 1) != 0;
    if (!a.lies(!transpose_a) || !b.lies(transpose_b)) continue;
    const Laid laid_a = a.as_a(transpose_a), laid_b = b.as_b(transpose_b);
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      const Device device{DeviceType::cuda, gpu};
      OnGpu on_gpu_a(laid_a, device), on_gpu_b(laid_b, device);
      on_gpu_a.operand.hadamard = on_gpu_b.operand.hadamard = hadamard;
      Tensor d = Tensor::empty({m, n}, DType::f32, device);
      const MatmulLog log;
      backend(device).gemm({.m = m,
                            .n = n,
                            .k = k,
                            .a = on_gpu_a.operand,
                            .b = on_gpu_b.operand,
                            .d = {.data = d.mutable_data()}});
      INFO(gemm_test::describe(a_kind) << " x " << gemm_test::describe(b_kind) << " " << m << "x"
                                       << n << "x" << k << " layout " << layout << " cuda:" << gpu);
      REQUIRE(log.matmuls().size() == 1);
      check_path(log.matmuls()[0], a_kind, b_kind, capability_of(device));
      CHECK(relative_error(values_of(d.to(Device{})), expected) < kLimit);
    }
  }
}

TEST_CASE("cuda: gemm: every kind of operand without blocks, in every layout, on every GPU") {
  std::uint64_t seed = 1;
  for (const Kind& kind : gemm_test::kPlainKinds) {
    for (const Kind& other : gemm_test::kPlainKinds) {
      if (kind.dtype == DType::e5m2 && other.dtype == DType::e5m2) continue;
      for (const Size& size : kSizes) {
        if (size.m < 100) check_product(kind, other, size, seed += 2);
      }
    }
  }
}

TEST_CASE("cuda: gemm: every kind with blocks, in every layout, on every GPU") {
  using enum ScalingMode;
  const std::pair<Kind, Kind> pairs[] = {
      {{DType::e4m3, mxfp8_1d}, {DType::e4m3, mxfp8_1d}},
      {{DType::e5m2, mxfp8_1d}, {DType::e4m3, mxfp8_1d}},
      {{DType::e4m3, mxfp8_1d}, {DType::e5m2, per_tensor}},
      {{DType::e4m3, float8_block_1d}, {DType::e4m3, float8_block_2d}},
      {{DType::e5m2, float8_block_2d, true}, {DType::e4m3, float8_block_1d}},
      {{DType::e5m2, float8_block_1d, true}, {DType::e4m3, float8_block_1d, true}},
      {{DType::e4m3, float8_block_2d}, {DType::e4m3, float8_block_2d}},
      {{DType::e4m3, float8_block_1d}, {DType::bf16}},
      {{DType::e2m1, nvfp4_1d}, {DType::e2m1, nvfp4_1d}},
      {{DType::e2m1, nvfp4_1d}, {DType::e2m1, nvfp4_2d}},
      {{DType::e2m1, nvfp4_2d}, {DType::e4m3, mxfp8_1d}}};
  std::uint64_t seed = 300;
  for (const auto& [kind, other] : pairs) {
    for (const Size& size : kSizes) check_product(kind, other, size, seed += 2);
  }
}

TEST_CASE("cuda: gemm: the Hadamard transform fills the last block of k up") {
  for (const Size& size : kSizes) {
    check_product({DType::e2m1, ScalingMode::nvfp4_1d}, {DType::e2m1, ScalingMode::nvfp4_1d}, size,
                  500, true);
  }
}

/// With the tensors' scales, with and without a bias, to every type of d.
void check_results(const Kind& kind, const Size& size, Device device) {
  const std::int64_t m = size.m, n = size.n, k = size.k;
  CAPTURE(gemm_test::describe(kind));
  CAPTURE(n);
  const Operand a = gemm_test::random_operand(kind, m, k, 7);
  const Operand b = gemm_test::random_operand(kind, n, k, 8);
  OnGpu on_gpu_a(a.as_a(false), device), on_gpu_b(b.as_b(true), device);
  const auto on = [&](const Tensor& tensor) { return tensor.to(device); };
  const Tensor scale_a = on(Tensor::from({0.37F}, {})), scale_b = on(Tensor::from({1.7F}, {}));
  const bool scaled = kind.mode != ScalingMode::none;
  if (scaled) {
    on_gpu_a.operand.scale_inv = static_cast<const ScaleInv*>(scale_a.data());
    on_gpu_b.operand.scale_inv = static_cast<const ScaleInv*>(scale_b.data());
  }
  const double factor = scaled ? static_cast<double>(0.37F) * static_cast<double>(1.7F) : 1.0;
  const std::vector<double> bias = values_of(random_tensor({n}, 9));
  const Tensor bias_values = on(Tensor::from(bias, {n}).to(DType::f32));
  for (const bool with_bias : {false, true}) {
    CAPTURE(with_bias);
    const std::vector<double> expected =
        product(a, b, k, factor, with_bias ? bias : std::vector<double>{});
    const double largest = largest_magnitude(expected);
    GemmArgs args{.m = m, .n = n, .k = k, .a = on_gpu_a.operand, .b = on_gpu_b.operand};
    if (with_bias) args.bias = bias_values.data();
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      CAPTURE(to_string(dtype));
      Tensor d = Tensor::empty({m, n}, dtype, device);
      args.d = {.data = d.mutable_data(), .dtype = dtype};
      const MatmulLog log;
      backend(device).gemm(args);
      CHECK(relative_error(values_of(d.to(Device{})), expected) <
            (dtype == DType::f32 ? kLimit : tolerance(dtype)));
      // The library writes d where its rows are whole and no f32 bias comes on a narrower sum.
      const bool native = is_native(kind, kind, capability_of(device));
      const bool direct = n % 8 == 0 && (native || dtype != DType::f16) &&
                          (!with_bias || (!native && dtype == DType::f32));
      CHECK(log.matmuls().at(0).d.type == library_type(direct ? dtype : DType::f32));
      CHECK((log.matmuls()[0].epilogue == CUBLASLT_EPILOGUE_BIAS) == (direct && with_bias));
    }
    Tensor codes = Tensor::empty({m, n}, DType::e4m3, device);
    Tensor amax = Tensor::empty({}, DType::f32, device);
    const float factor_d = std::exp2(std::floor(std::log2(200.0F / static_cast<float>(largest))));
    const Tensor scale = on(Tensor::from({factor_d}, {}));
    args.d = {.data = codes.mutable_data(),
              .dtype = DType::e4m3,
              .scale = static_cast<const Scale*>(scale.data()),
              .amax = static_cast<Amax*>(amax.mutable_data())};
    backend(device).gemm(args);
    CHECK(std::abs(amax.item<double>() - largest) < kLimit * largest);
    std::vector<double> decoded = values_of(codes.to(Device{}));
    for (double& value : decoded) value /= static_cast<double>(factor_d);
    CHECK(relative_error(decoded, expected) < 0x1p-4);
  }
}

TEST_CASE("cuda: gemm: scales, bias, casts and amax, on every GPU") {
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    CAPTURE(gpu);
    for (const Size& size : {Size{20, 35, 40}, Size{19, 40, 64}}) {
      for (const Kind& kind : {Kind{DType::bf16}, Kind{DType::e4m3, ScalingMode::per_tensor},
                               Kind{DType::e2m1, ScalingMode::nvfp4_2d}}) {
        check_results(kind, size, {DeviceType::cuda, gpu});
      }
    }
  }
}

TEST_CASE("cuda: gemm: operands that begin within a tensor") {
  const Device blackwell{DeviceType::cuda, 3};
  for (const Kind& kind : {Kind{DType::bf16}, Kind{DType::e4m3, ScalingMode::mxfp8_1d},
                           Kind{DType::e2m1, ScalingMode::nvfp4_1d}}) {
    for (const std::int64_t offset : {16, 2}) {
      CAPTURE(gemm_test::describe(kind));
      CAPTURE(offset);
      const Operand a = gemm_test::random_operand(kind, 32, 64, 11);
      const Operand b = gemm_test::random_operand(kind, 16, 64, 12);
      const OnGpu on_gpu_a(a.as_a(false), blackwell, offset);
      const OnGpu on_gpu_b(b.as_b(true), blackwell, offset);
      Tensor d = Tensor::empty({32, 16}, DType::f32, blackwell);
      backend(blackwell).gemm({.m = 32,
                               .n = 16,
                               .k = 64,
                               .a = on_gpu_a.operand,
                               .b = on_gpu_b.operand,
                               .d = {.data = d.mutable_data()}});
      CHECK(relative_error(values_of(d.to(Device{})), product(a, b, 64)) < kLimit);
    }
  }
}

TEST_CASE("cuda: gemm: nothing to contract gives the bias; what the CPU refuses is refused") {
  const Tensor bias = Tensor::from({1.0F, 2.0F, 3.0F}, {3}).to(kGpu);
  Tensor d = Tensor::empty({2, 3}, DType::f32, kGpu);
  GemmArgs args{.m = 2, .n = 3, .k = 0, .bias = bias.data(), .d = {.data = d.mutable_data()}};
  gpu_backend().gemm(args);
  CHECK(d.to_vector<float>() == std::vector<float>{1, 2, 3, 1, 2, 3});
  args.a.dtype = args.b.dtype = DType::e5m2;
  CHECK_THROWS_AS(gpu_backend().gemm(args), UnsupportedError);
  args.a.dtype = DType::f64;
  CHECK_THROWS_AS(gpu_backend().gemm(args), UnsupportedError);
}

}  // namespace
}  // namespace tape8::test
