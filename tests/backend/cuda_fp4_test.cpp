// NVFP4 casts against the host functions of the CUDA toolkit, where its headers are installed.
#if __has_include(<cuda_fp4.h>)

#include <algorithm>
#include <bit>
#include <cmath>

#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include "backend/block_cast_support.hpp"

namespace tape8::test {
namespace {

constexpr std::int64_t kBlock = 16;
constexpr float kTensorAmax = 6.0F * 448.0F;  // whose tensor scale is 1

/// All values of bf16 and f16, a grid of f32, and what lies next to each tie of e2m1.
std::vector<float> sample() {
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    values.push_back(std::bit_cast<float>(i << 16U));
    values.push_back(static_cast<float>(decode(DType::f16, static_cast<std::uint16_t>(i))));
  }
  for (std::uint64_t i = 0; i < (std::uint64_t{1} << 32U); i += 15952) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(i)));
  }
  for (const float tie : {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F, 6.0F}) {
    for (const float sign : {1.0F, -1.0F}) {
      values.push_back(sign * tie);
      values.push_back(sign * std::nextafter(tie, 0.0F));
      values.push_back(sign * std::nextafter(tie, 10.0F));
    }
  }
  return values;
}

/// One e2m1 scale a block of 16: the toolkit's bytes for the blocks of x, by NVFP4's formula.
struct Expected {
  std::vector<std::uint8_t> codes, scales;

  explicit Expected(const std::vector<float>& x) {
    for (std::size_t begin = 0; begin < x.size(); begin += kBlock) {
      float amax = 0.0F;
      for (std::size_t i = begin; i < begin + kBlock; ++i) {
        amax =
            std::isnan(amax) || std::isnan(x[i]) ? std::nanf("") : std::max(amax, std::fabs(x[i]));
      }
      const auto byte = __nv_cvt_float_to_fp8(amax / 6.0F, __NV_SATFINITE, __NV_E4M3);
      const auto half = __half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3));
      const float multiplier =
          std::fmin(1.0F / __half2float(half), std::numeric_limits<float>::max());
      scales.push_back(byte == 0xFF ? 0x7F : byte);
      for (std::size_t i = begin; i < begin + kBlock; ++i) {
        codes.push_back(__nv_cvt_float_to_fp4(x[i] * multiplier, __NV_E2M1, cudaRoundNearest));
      }
    }
  }
};

/// Casts x, rows of one block, for a usage; the codes one a byte.
void check(const std::vector<float>& x, Usage usage) {
  const auto blocks_count = static_cast<std::int64_t>(x.size()) / kBlock;
  const bool rowwise = usage == Usage::rowwise;
  std::vector<float> lying = x;  // columnwise the blocks lie along the columns
  for (std::int64_t b = 0; !rowwise && b < blocks_count; ++b) {
    for (std::int64_t i = 0; i < kBlock; ++i) {
      lying[static_cast<std::size_t>(i * blocks_count + b)] =
          x[static_cast<std::size_t>(b * kBlock + i)];
    }
  }
  const std::int64_t rows = rowwise ? blocks_count : kBlock;
  const std::int64_t cols = rowwise ? kBlock : blocks_count;
  const auto results = same_everywhere([&](Backend& backend) {
    BlockMemory memory(rows, cols, {ScalingMode::nvfp4_1d, DType::e2m1}, rowwise, !rowwise,
                       kTensorAmax, kTensorAmax);
    const BlockOutput blocks = memory.output();
    backend.cast({.rows = rows, .cols = cols, .x = {lying.data()}, .y = {.blocks = &blocks}});
    return memory.results();
  });
  const Expected expected(x);
  const std::size_t part = rowwise ? 0 : 2;
  const auto* codes = static_cast<const std::uint8_t*>(results[part].data());
  const auto* scales = static_cast<const std::uint8_t*>(results[part + 1].data());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto code = i % 2 == 0 ? codes[i / 2] & 0xFU : codes[i / 2] >> 4U;
    if (code != expected.codes[i]) ++wrong;
  }
  for (std::size_t b = 0; b < expected.scales.size(); ++b) {
    if (scales[b] != expected.scales[b]) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("block cast: e2m1 and its scales as cuda_fp4.h, on all bf16 and f16 and a grid of f32") {
  const std::vector<float> values = sample();
  for (const Usage usage : {Usage::rowwise, Usage::columnwise}) {
    // Each value beside a 6, so that it is cast as it is or, if larger, makes the scale itself.
    std::vector<float> beside_six;
    for (std::size_t i = 0; i < values.size(); i += kBlock - 1) {
      beside_six.push_back(6.0F);
      for (std::size_t j = i; j < i + kBlock - 1; ++j) {
        const float value = j < values.size() ? values[j] : 0.0F;
        beside_six.push_back(std::fabs(value) <= 6.0F ? value : 0.0F);
      }
    }
    check(beside_six, usage);
    // Neighbours in one block, of all magnitudes, NaN and Inf among them.
    std::vector<float> together = values;
    together.resize((values.size() + kBlock - 1) / kBlock * kBlock);
    check(together, usage);
  }
}

}  // namespace
}  // namespace tape8::test

#endif
