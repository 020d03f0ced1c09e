#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/tensor.hpp>

#include "support/expect.hpp"
#include "support/float_table.hpp"

namespace tape8 {
namespace {

using test::float_table;
using test::Values;

constexpr std::array kFloats = {DType::f64,  DType::f32,  DType::bf16, DType::f16,
                                DType::e4m3, DType::e5m2, DType::e2m1};

TEST_CASE("convert: from rounds once to every float type") {
  const Values values = test::random_values(1001, 3, -8.0, 8.0);
  for (const DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    const Tensor t = Tensor::from(values, {1001}, dtype);
    CHECK(t.dtype() == dtype);
    CHECK(test::values_of(t) == test::rounded(values, dtype));
  }
}

TEST_CASE("convert: f64 reaches 16 bits without a stop at f32") {
  // One f64 ulp above the midpoint of 1 and the next bf16 or f16: a stop at f32 makes it a tie.
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(to_string(dtype));
    const double ulp = dtype == DType::bf16 ? 0x1p-7 : 0x1p-10;
    const double value = std::nextafter(1.0 + ulp / 2.0, 2.0);
    CHECK(Tensor::from({value}, {1}, dtype).item<double>() == 1.0 + ulp);
    CHECK(Tensor::full({1}, value, dtype).item<double>() == 1.0 + ulp);
    CHECK(Tensor::from({value}, {1}).to(dtype).item<double>() == 1.0 + ulp);
  }
}

TEST_CASE("convert: between all float types, values are rounded once from the source") {
  const Values values = test::random_values(300, 4, -6.0, 6.0);
  for (const DType source : kFloats) {
    for (const DType target : kFloats) {
      CAPTURE(to_string(source));
      CAPTURE(to_string(target));
      const Values held = test::rounded(values, source);
      const Tensor t = Tensor::from(values, {300}, source).to(target);
      CHECK(t.dtype() == target);
      CHECK(test::values_of(t) == test::rounded(held, target));
    }
  }
}

TEST_CASE("convert: to the same type is the same memory") {
  const Tensor t = Tensor::zeros({3});
  CHECK(t.to(DType::f32).shares_storage(t));
  CHECK_FALSE(t.to(DType::f64).shares_storage(t));
}

TEST_CASE("convert: integers are exact") {
  const std::vector<std::int64_t> values{0, -1, (std::int64_t{1} << 53) + 1,
                                         std::numeric_limits<std::int64_t>::max(),
                                         std::numeric_limits<std::int64_t>::min()};
  const Tensor t = Tensor::from(values, {5});
  CHECK(t.to_vector<std::int64_t>() == values);
  Tensor copy = Tensor::zeros({5}, DType::i64);
  copy.copy_from(t);
  CHECK(copy.to_vector<std::int64_t>() == values);
  CHECK(Tensor::from({std::int32_t{7}}, {1}, DType::i64).item<std::int64_t>() == 7);
  CHECK(Tensor::from({std::uint8_t{200}}, {1}, DType::i32).item<std::int32_t>() == 200);
  CHECK(Tensor::from({std::uint8_t{200}}, {1}, DType::f32).item<float>() == 200.0F);
}

TEST_CASE("convert: large integers round once to floats") {
  // 2^62 + 2^54 is halfway between two bf16 values; the 1 is lost on a way through f64.
  const std::int64_t value = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;
  CHECK(Tensor::from({value}, {1}, DType::bf16).item<double>() == 0x1p62 + 0x1p55);
  const std::int64_t single = (std::int64_t{1} << 62) + (std::int64_t{1} << 38) + 1;
  CHECK(Tensor::from({single}, {1}, DType::f32).item<double>() == 0x1p62 + 0x1p39);
}

TEST_CASE("convert: bool is whether a value is not zero") {
  const Tensor t = Tensor::from({0.0F, 0.5F, -0.0F, -2.0F}, {4}, DType::boolean);
  CHECK(test::bytes_of(t) == std::vector<std::uint8_t>{0, 1, 0, 1});
  CHECK(t.to_vector<bool>() == std::vector<bool>{false, true, false, true});
  CHECK(Tensor::from({0.0F, 0.5F}, {2}).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK(t.to(DType::f32).to_vector<float>() == std::vector<float>{0, 1, 0, 1});
}

TEST_CASE("convert: Inf and NaN") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Tensor t = Tensor::from({kInfinity, -kInfinity, kNaN}, {3});
  const auto bf16 = t.to(DType::bf16).to_vector<float>();
  CHECK(bf16[0] == kInfinity);
  CHECK(bf16[1] == -kInfinity);
  CHECK(std::isnan(bf16[2]));
  const auto e4m3 = t.to(DType::e4m3).to_vector<float>();
  CHECK(e4m3[0] == 448.0F);
  CHECK(e4m3[1] == -448.0F);
  CHECK(std::isnan(e4m3[2]));
  const auto e5m2 = t.to(DType::e5m2).to_vector<float>();
  CHECK(e5m2[0] == 57344.0F);
  CHECK(std::isnan(e5m2[2]));
}

TEST_CASE("convert: all-zero tensors decode to zeros in every float type") {
  for (const DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    CHECK(test::values_of(Tensor::zeros({5}, dtype)) == Values(5, 0.0));
    CHECK(test::values_of(Tensor::zeros({5}).to(dtype)) == Values(5, 0.0));
  }
}

}  // namespace
}  // namespace tape8
