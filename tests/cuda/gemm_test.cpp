// Matmuls on emulated GPUs against float64 sums of the same operands.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <tape8/core/error.hpp>

#include "backend/gemm_block_support.hpp"
#include "cuda/both_backends.hpp"

namespace tape8::test {
namespace {

using gemm_test::Kind;
using gemm_test::Laid;
using gemm_test::Operand;

/// Sums of some hundred products in f32.
constexpr double kLimit = 1e-6;

/// Memory of a GPU that begins `offset` bytes after what the allocator gives.
Tensor uploaded(const std::vector<std::uint8_t>& bytes, std::int64_t offset = 0) {
  std::vector<std::uint8_t> all(static_cast<std::size_t>(offset), 0xFF);
  all.insert(all.end(), bytes.begin(), bytes.end());
  const auto count = static_cast<std::int64_t>(all.size());
  return Tensor::from(all, {count}).to(kGpu).slice(0, offset, count);
}

/// An operand's memory on the GPU.
struct OnGpu {
  explicit OnGpu(const Laid& laid, std::int64_t offset = 0)
      : data(uploaded(laid.data, offset)), scales(uploaded(laid.scales)), operand(laid.operand) {
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

constexpr std::array<std::int64_t, 3> kSizes[] = {
    {1, 1, 1}, {17, 33, 50}, {48, 32, 64}, {5, 130, 129}};

/// In each layout that the operands have.
void check_product(const Kind& a_kind, const Kind& b_kind, std::uint64_t seed,
                   bool hadamard = false) {
  for (const auto& [m, n, k] : kSizes) {
    const Operand a = gemm_test::random_operand(a_kind, m, k, seed);
    const Operand b = gemm_test::random_operand(b_kind, n, k, seed + 1);
    const std::vector<double> expected = product(a, b, hadamard ? a.padded_k : k);
    for (const int layout : {0, 1, 2, 3}) {
      const bool transpose_a = (layout & 2) != 0;
      const bool transpose_b = (layout & 1) != 0;
      if (!a.lies(!transpose_a) || !b.lies(transpose_b)) continue;
      OnGpu on_gpu_a(a.as_a(transpose_a)), on_gpu_b(b.as_b(transpose_b));
      on_gpu_a.operand.hadamard = on_gpu_b.operand.hadamard = hadamard;
      Tensor d = Tensor::empty({m, n}, DType::f32, kGpu);
      gpu_backend().gemm({.m = m,
                          .n = n,
                          .k = k,
                          .a = on_gpu_a.operand,
                          .b = on_gpu_b.operand,
                          .d = {.data = d.mutable_data()}});
      INFO(gemm_test::describe(a_kind) << " x " << gemm_test::describe(b_kind) << " " << m << "x"
                                       << n << "x" << k << " layout " << layout);
      CHECK(relative_error(values_of(d.to(Device{})), expected) < kLimit);
    }
  }
}

TEST_CASE("cuda: gemm: every kind of operand, in every layout") {
  std::uint64_t seed = 1;
  for (const Kind& kind : gemm_test::kPlainKinds) {
    for (const Kind& other : gemm_test::kPlainKinds) {
      if (kind.dtype == DType::e5m2 && other.dtype == DType::e5m2) continue;
      check_product(kind, other, seed += 2);
    }
  }
  for (const Kind& kind : gemm_test::kBlockKinds) {
    const Kind other = kind.dtype == DType::e5m2 ? gemm_test::kBlockKinds[0] : kind;
    check_product(kind, other, seed += 2);
  }
}

TEST_CASE("cuda: gemm: the Hadamard transform fills the last block of k up") {
  check_product({DType::e2m1, ScalingMode::nvfp4_1d}, {DType::e2m1, ScalingMode::nvfp4_1d}, 500,
                true);
}

TEST_CASE("cuda: gemm: scales, bias, casts and amax, on every GPU") {
  const auto [m, n, k] = std::array<std::int64_t, 3>{20, 35, 40};
  const Kind kind{DType::e4m3, ScalingMode::per_tensor};
  const Operand a = gemm_test::random_operand(kind, m, k, 7);
  const Operand b = gemm_test::random_operand(kind, n, k, 8);
  const std::vector<double> bias = values_of(random_tensor({n}, 9));
  const double factor = static_cast<double>(0.37F) * static_cast<double>(1.7F);
  const std::vector<double> expected = product(a, b, k, factor, bias);
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (int gpu = 0; gpu < 5; ++gpu) {
    CAPTURE(gpu);
    const Device device{DeviceType::cuda, gpu};
    const auto on = [&](const Tensor& tensor) { return tensor.to(device); };
    const Tensor scale_a = on(Tensor::from({0.37F}, {})), scale_b = on(Tensor::from({1.7F}, {}));
    const Tensor bias_values = on(Tensor::from(bias, {n}).to(DType::f32));
    const Laid laid_a = a.as_a(false), laid_b = b.as_b(true);
    const Tensor data_a = on(Tensor::from(laid_a.data, {m * k}));
    const Tensor data_b = on(Tensor::from(laid_b.data, {n * k}));
    GemmArgs args{.m = m, .n = n, .k = k, .a = laid_a.operand, .b = laid_b.operand};
    args.a.data = data_a.data();
    args.b.data = data_b.data();
    args.a.scale_inv = static_cast<const ScaleInv*>(scale_a.data());
    args.b.scale_inv = static_cast<const ScaleInv*>(scale_b.data());
    args.bias = bias_values.data();
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      Tensor d = Tensor::empty({m, n}, dtype, device);
      args.d = {.data = d.mutable_data(), .dtype = dtype};
      backend(device).gemm(args);
      const double limit = dtype == DType::f32 ? kLimit : 0x1p-8;
      CHECK(relative_error(values_of(d.to(Device{})), expected) < limit);
    }
    Tensor codes = Tensor::empty({m, n}, DType::e4m3, device);
    Tensor amax = Tensor::empty({}, DType::f32, device);
    const Tensor scale = on(Tensor::from({2.0F}, {}));
    args.d = {.data = codes.mutable_data(),
              .dtype = DType::e4m3,
              .scale = static_cast<const Scale*>(scale.data()),
              .amax = static_cast<Amax*>(amax.mutable_data())};
    backend(device).gemm(args);
    CHECK(std::abs(amax.item<double>() - largest) < kLimit * largest);
    std::vector<double> decoded = values_of(codes.to(Device{}));
    for (double& value : decoded) value /= 2.0;
    CHECK(relative_error(decoded, expected) < 0x1p-4);
  }
}

TEST_CASE("cuda: gemm: operands that begin within a tensor") {
  for (const std::int64_t offset : {16, 2}) {
    CAPTURE(offset);
    const Operand a = gemm_test::random_operand({DType::bf16}, 32, 48, 11);
    const Operand b = gemm_test::random_operand({DType::bf16}, 16, 48, 12);
    const OnGpu on_gpu_a(a.as_a(false), offset), on_gpu_b(b.as_b(true), offset);
    Tensor d = Tensor::empty({32, 16}, DType::f32, kGpu);
    gpu_backend().gemm({.m = 32,
                        .n = 16,
                        .k = 48,
                        .a = on_gpu_a.operand,
                        .b = on_gpu_b.operand,
                        .d = {.data = d.mutable_data()}});
    CHECK(relative_error(values_of(d.to(Device{})), product(a, b, 48)) < kLimit);
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
