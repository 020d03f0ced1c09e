#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "backend/cpu/gemm.hpp"
#include "backend/gemm_support.hpp"

namespace tape8 {
namespace {

using namespace gemm_test;

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

}  // namespace
}  // namespace tape8
