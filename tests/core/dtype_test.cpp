#include <array>
#include <string_view>

#include <doctest/doctest.h>

#include <tape8/core/device.hpp>
#include <tape8/core/dtype.hpp>
#include <tape8/core/norm_type.hpp>
#include <tape8/core/scaling.hpp>

namespace tape8 {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int bits;
  bool compute, fp8, integer;
  float largest;
};

constexpr std::array<Row, 12> kRows{{
    {DType::f64, "f64", 64, true, false, false, 0.0F},
    {DType::f32, "f32", 32, true, false, false, 0.0F},
    {DType::bf16, "bf16", 16, true, false, false, 0.0F},
    {DType::f16, "f16", 16, true, false, false, 0.0F},
    {DType::e4m3, "e4m3", 8, false, true, false, 448.0F},
    {DType::e5m2, "e5m2", 8, false, true, false, 57344.0F},
    {DType::e2m1, "e2m1", 4, false, false, false, 6.0F},
    {DType::e8m0, "e8m0", 8, false, false, false, 0.0F},
    {DType::i32, "i32", 32, false, false, true, 0.0F},
    {DType::i64, "i64", 64, false, false, true, 0.0F},
    {DType::u8, "u8", 8, false, false, true, 0.0F},
    {DType::boolean, "bool", 8, false, false, false, 0.0F},
}};

TEST_CASE("dtype: names, sizes and classes") {
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    CHECK(to_string(row.dtype) == row.name);
    CHECK(bits(row.dtype) == row.bits);
    CHECK(is_compute(row.dtype) == row.compute);
    CHECK(is_fp8(row.dtype) == row.fp8);
    CHECK(is_integer(row.dtype) == row.integer);
    CHECK(low_precision_max(row.dtype) == row.largest);
  }
}

TEST_CASE("dtype: of C++ types") {
  CHECK(dtype_of<double>() == DType::f64);
  CHECK(dtype_of<float>() == DType::f32);
  CHECK(dtype_of<std::int32_t>() == DType::i32);
  CHECK(dtype_of<std::int64_t>() == DType::i64);
  CHECK(dtype_of<std::uint8_t>() == DType::u8);
  CHECK(dtype_of<bool>() == DType::boolean);
}

TEST_CASE("names of devices, norms, modes and roles") {
  CHECK(to_string(Device{}) == "cpu");
  CHECK(to_string(Device{DeviceType::cuda, 1}) == "cuda:1");
  CHECK(to_string(NormType::layernorm) == "layernorm");
  CHECK(to_string(NormType::rmsnorm) == "rmsnorm");
  CHECK(to_string(ScalingMode::none) == "none");
  CHECK(to_string(ScalingMode::per_tensor) == "per_tensor");
  CHECK(to_string(ScalingMode::mxfp8_1d) == "mxfp8_1d");
  CHECK(to_string(ScalingMode::float8_block_1d) == "float8_block_1d");
  CHECK(to_string(ScalingMode::float8_block_2d) == "float8_block_2d");
  CHECK(to_string(ScalingMode::nvfp4_1d) == "nvfp4_1d");
  CHECK(to_string(ScalingMode::nvfp4_2d) == "nvfp4_2d");
  CHECK(to_string(TensorRole::x) == "x");
  CHECK(to_string(TensorRole::kernel) == "kernel");
  CHECK(to_string(TensorRole::dgrad) == "dgrad");
  CHECK(inverse(Scale{4.0F}) == ScaleInv{0.25F});
}

}  // namespace
}  // namespace tape8
