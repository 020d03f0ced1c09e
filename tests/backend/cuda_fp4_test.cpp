// NVFP4's casts against the host functions of the CUDA toolkit, where its header is installed.
#if __has_include(<cuda_fp4.h>)

#include <bit>

#include <cuda_fp4.h>

#include "backend/block_cast_support.hpp"

namespace tape8::test {
namespace {

std::uint8_t e2m1_outside(float x) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); }

/// Casts a row, and checks each code against the header's of the value times the multiplier that
/// its block's scale stands for; returns how many blocks' multiplier is 1.
int check_codes(const std::vector<float>& x, float amax) {
  const auto count = static_cast<std::int64_t>(x.size());
  REQUIRE(count % 16 == 0);
  auto results = same_everywhere([&](Backend& backend) {
    BlockMemory memory(1, count, {ScalingMode::nvfp4_1d, DType::e2m1}, true, false, amax);
    const BlockOutput blocks = memory.output();
    backend.cast({.rows = 1, .cols = count, .x = {x.data()}, .y = {.blocks = &blocks}});
    return memory.results();
  });
  const auto tensor_scale_inv = static_cast<float>(results[4][0]);
  std::int64_t wrong = 0;
  int ones = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto scale =
        static_cast<float>(decode(DType::e4m3, results[1].as<std::uint8_t>()[i / 16]));
    const float multiplier =
        std::fmin(1.0F / (scale * tensor_scale_inv), std::numeric_limits<float>::max());
    if (i % 16 == 0 && multiplier == 1.0F) ++ones;
    const unsigned code = (results[0].as<std::uint8_t>()[i / 2] >> (i % 2 * 4)) & 15U;
    if (code != e2m1_outside(x[static_cast<std::size_t>(i)] * multiplier)) ++wrong;
  }
  CHECK(wrong == 0);
  return ones;
}

TEST_CASE("block cast: e2m1 as cuda_fp4.h, on all bf16 and f16 and bits at random") {
  std::vector<float> sample;
  for (std::uint32_t i = 0; i < 65536; ++i) sample.push_back(std::bit_cast<float>(i << 16U));
  for (std::uint32_t i = 0; i < 65536; ++i) {
    sample.push_back(static_cast<float>(decode(DType::f16, static_cast<std::uint16_t>(i))));
  }
  std::mt19937 generator(3);
  for (int i = 0; i < 1 << 17; ++i) {
    sample.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(generator())));
  }
  for (const float amax : {1.0F, 2688.0F, 1e-30F, 1e30F}) check_codes(sample, amax);
}

TEST_CASE("block cast: e2m1 as cuda_fp4.h at every midpoint and its neighbours, unscaled") {
  std::vector<float> values;
  const float inf = std::numeric_limits<float>::infinity();
  const auto add = [&](float value) {
    for (const float near : {value, std::nextafter(value, inf), std::nextafter(value, -inf)}) {
      if (std::abs(near) > 6.0F) continue;  // would be the block's amax
      values.push_back(near);
      values.push_back(-near);
    }
  };
  const std::vector<float> table = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (std::size_t i = 0; i < table.size(); ++i) {
    add(table[i]);
    if (i > 0) add((table[i - 1] + table[i]) / 2);
  }
  for (int i = 0; i < 6000; ++i) values.push_back(static_cast<float>(i) * 0.001F);
  // A 6 in every block makes its scale 1.
  std::vector<float> x;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (x.size() % 16 == 0) x.push_back(6.0F);
    x.push_back(values[i]);
  }
  while (x.size() % 16 != 0) x.push_back(0.0F);
  CHECK(check_codes(x, 2688.0F) == static_cast<int>(x.size() / 16));
}

TEST_CASE("block cast: a NaN is +6 as in cuda_fp4.h, in a block whose scale is NaN") {
  CHECK(e2m1_outside(std::nanf("")) == 7);
  CHECK(e2m1_outside(-std::nanf("")) == 7);
  std::vector<float> x(16, 1.0F);
  x[3] = -std::nanf("");
  check_codes(x, std::nanf(""));
  check_codes(x, 1.0F);
}

}  // namespace
}  // namespace tape8::test

#endif
