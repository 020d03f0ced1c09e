// The casts against the host functions of the CUDA toolkit, where its header is installed.
#if __has_include(<cuda_fp8.h>)

#include <bit>

#include <cuda_fp8.h>

#include "backend/block_cast_support.hpp"

namespace tape8::test {
namespace {

TEST_CASE("cast: FP8 as cuda_fp8.h, on all bf16 and f16 and a grid of f32") {
  std::vector<float> sample;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    sample.push_back(std::bit_cast<float>(i << 16U));
    sample.push_back(static_cast<float>(decode(DType::f16, static_cast<std::uint16_t>(i))));
  }
  for (std::uint64_t i = 0; i < (std::uint64_t{1} << 32U); i += 15952) {
    sample.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(i)));
  }
  const auto count = static_cast<std::int64_t>(sample.size());
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    const auto interpretation = dtype == DType::e4m3 ? __NV_E4M3 : __NV_E5M2;
    auto results = same_everywhere([&](Backend& backend) {
      Memory y(dtype, count);
      backend.cast({.rows = 1, .cols = count, .x = {sample.data(), DType::f32}, .y = y.output()});
      return std::vector{y};
    });
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const float x = sample[static_cast<std::size_t>(i)];
      const auto expected = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, interpretation);
      if (results[0].as<std::uint8_t>()[i] != expected) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("block cast: e8m0 as cuda_fp8.h rounding up, for every exponent and many mantissas") {
  std::vector<float> amaxes = {std::numeric_limits<float>::infinity(), std::nanf(""), 0.0F};
  std::mt19937 generator(5);
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    std::vector<std::uint32_t> mantissas = {0,        1,        2,        0x3FFFFE,
                                            0x3FFFFF, 0x400000, 0x400001, 0x600000,
                                            0x600001, 0x5FFFFF, 0x7FFFFF, 0x7FFFFE};
    for (int i = 0; i < 40; ++i) mantissas.push_back(generator() & 0x7FFFFFU);
    for (const std::uint32_t mantissa : mantissas) {
      amaxes.push_back(std::bit_cast<float>(exponent << 23U | mantissa));
    }
  }
  std::vector<float> x(amaxes.size() * 32, 0.0F);
  for (std::size_t i = 0; i < amaxes.size(); ++i) x[i * 32 + i % 32] = amaxes[i];
  const auto count = static_cast<std::int64_t>(amaxes.size());
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    auto results = same_everywhere([&](Backend& backend) {
      BlockMemory memory(1, count * 32, {ScalingMode::mxfp8_1d, dtype}, true, false);
      const BlockOutput blocks = memory.output();
      backend.cast({.rows = 1, .cols = count * 32, .x = {x.data()}, .y = {.blocks = &blocks}});
      return memory.results();
    });
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const float v = amaxes[static_cast<std::size_t>(i)] / low_precision_max(dtype);
      const auto expected = __nv_cvt_float_to_e8m0(v, __NV_SATFINITE, cudaRoundPosInf);
      if (results[1].as<std::uint8_t>()[i] != expected) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace tape8::test

#endif
