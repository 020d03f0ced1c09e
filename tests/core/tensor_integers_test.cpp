#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/tensor.hpp>

#include "support/values.hpp"

namespace tape8 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A float value as an integer type, by each way that there is.
template <class T>
std::vector<T> converted(double value, DType dtype) {
  const Tensor source = Tensor::from({value}, {1}, DType::f64);
  Tensor filled = Tensor::zeros({1}, dtype);
  filled.fill(value);
  Tensor copied = Tensor::zeros({1}, dtype);
  copied.copy_from(source);
  return {source.to(dtype).item<T>(),
          source.item<T>(),
          filled.item<T>(),
          copied.item<T>(),
          Tensor::full({1}, value, dtype).item<T>(),
          Tensor::from({value}, {1}, dtype).item<T>()};
}

template <class T>
void check_converts(double value, T expected) {
  CAPTURE(value);
  for (const T got : converted<T>(value, dtype_of<T>())) CHECK(got == expected);
}

TEST_CASE("tensor: floats become the nearest integers, ties to even") {
  struct Row {
    double value;
    int nearest;
  };
  for (const Row& row : {Row{0.0, 0}, Row{0.5, 0}, Row{0.75, 1}, Row{1.5, 2}, Row{2.5, 2},
                         Row{3.5, 4}, Row{2.4999, 2}, Row{2.5001, 3}, Row{100.0, 100},
                         Row{254.5, 254}, Row{0.49999999999999994, 0}}) {
    check_converts<std::int32_t>(row.value, row.nearest);
    check_converts<std::int32_t>(-row.value, -row.nearest);
    check_converts<std::int64_t>(row.value, row.nearest);
    check_converts<std::int64_t>(-row.value, -row.nearest);
    check_converts<std::uint8_t>(row.value, static_cast<std::uint8_t>(row.nearest));
  }
  check_converts<std::int32_t>(2147483646.5, 2147483646);
  check_converts<std::int64_t>(4503599627370497.5, 4503599627370498);
}

template <class T>
void check_saturates(double beyond) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  constexpr T kSmallest = std::numeric_limits<T>::min();
  for (const double large : {beyond, 2.0 * beyond, 1e30, kInfinity}) {
    check_converts<T>(large, kLargest);
    check_converts<T>(-large, kSmallest);
  }
  check_converts<T>(kNaN, 0);
  check_converts<T>(-kNaN, 0);
}

TEST_CASE("tensor: floats past an integer type saturate, NaN is 0") {
  check_saturates<std::int32_t>(2147483648.5);
  check_saturates<std::int64_t>(0x1p63);
  check_saturates<std::uint8_t>(255.5);
  check_converts<std::int32_t>(2147483647.0, 2147483647);
  check_converts<std::int32_t>(2147483647.5, 2147483647);
  check_converts<std::int32_t>(-2147483648.0, std::numeric_limits<std::int32_t>::min());
  check_converts<std::int64_t>(-0x1p63, std::numeric_limits<std::int64_t>::min());
  check_converts<std::int64_t>(0x1.fffffffffffffp62, 9223372036854774784);
  check_converts<std::uint8_t>(255.49, 255);
  check_converts<std::uint8_t>(-0.5, 0);
  check_converts<std::uint8_t>(-3.0, 0);
}

TEST_CASE("tensor: the same from every float type") {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2}) {
    CAPTURE(to_string(dtype));
    const Tensor values = Tensor::from({0.5, 1.5, 2.5, -3.5, 448.0, kNaN}, {6}, dtype);
    CHECK(values.to(DType::i32).to_vector<std::int32_t>() ==
          std::vector<std::int32_t>{0, 2, 2, -4, 448, 0});
    CHECK(values.to(DType::u8).to_vector<std::uint8_t>() ==
          std::vector<std::uint8_t>{0, 2, 2, 0, 255, 0});
    CHECK(values.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 2, 2, -4, 448, 0});
  }
}

TEST_CASE("tensor: wider integers saturate in narrower ones") {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  const Tensor values = Tensor::from({kLarge, -kLarge, std::int64_t{300}, std::int64_t{-7}}, {4});
  CHECK(values.to(DType::i32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::max(),
                                  std::numeric_limits<std::int32_t>::min(), 300, -7});
  CHECK(values.to(DType::u8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{255, 0, 255, 0});
  CHECK(values.to_vector<std::int32_t>()[0] == std::numeric_limits<std::int32_t>::max());
  CHECK(values.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{255, 0, 255, 0});
}

TEST_CASE("tensor: a bool is whether a value is not 0, NaN included") {
  const Tensor values = Tensor::from({0.0, -0.0, 0.25, -1e-300, kNaN}, {5});
  CHECK(values.to(DType::boolean).to_vector<bool>() ==
        std::vector<bool>{false, false, true, true, true});
}

}  // namespace
}  // namespace tape8
