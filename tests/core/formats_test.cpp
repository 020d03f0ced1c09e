#include "core/formats.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "support/expect.hpp"
#include "support/float_table.hpp"

namespace tape8 {
namespace {

using test::FloatTable;

constexpr std::array kTabled = {DType::e4m3, DType::e5m2, DType::e2m1, DType::bf16, DType::f16};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("formats: the tables end where the formats do") {
  CHECK(FloatTable(DType::e4m3).largest() == 448.0);
  CHECK(FloatTable(DType::e5m2).largest() == 57344.0);
  CHECK(FloatTable(DType::e2m1).values() == test::Values{0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0});
  CHECK(FloatTable(DType::f16).largest() == 65504.0);
  const float largest_bf16 = std::bit_cast<float>(std::uint32_t{0x7F7F0000});
  CHECK(FloatTable(DType::bf16).largest() == static_cast<double>(largest_bf16));
}

TEST_CASE("formats: every finite code decodes to its value, with its sign") {
  for (const DType dtype : kTabled) {
    CAPTURE(to_string(dtype));
    const FloatTable table(dtype);
    bool equal = true;
    for (std::size_t code = 0; code < table.values().size(); ++code) {
      const double value = table.values()[code];
      const auto negative = static_cast<std::uint16_t>(code | table.sign());
      equal = equal && decode(dtype, static_cast<std::uint16_t>(code)) == value &&
              decode(dtype, negative) == -value && std::signbit(decode(dtype, negative));
    }
    CHECK(equal);
  }
}

TEST_CASE("formats: bf16 is the upper half of f32 on all codes") {
  bool equal = true;
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const double value = static_cast<double>(std::bit_cast<float>(code << 16));
    const double decoded = decode(DType::bf16, static_cast<std::uint16_t>(code));
    equal = equal && (std::isnan(value) ? std::isnan(decoded) : decoded == value);
  }
  CHECK(equal);
}

TEST_CASE("formats: codes of Inf and NaN") {
  CHECK(std::isnan(decode(DType::e4m3, 0x7F)));
  CHECK(std::isnan(decode(DType::e4m3, 0xFF)));
  CHECK(decode(DType::e5m2, 0x7C) == kInfinity);
  CHECK(decode(DType::e5m2, 0xFC) == -kInfinity);
  for (const int code : {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}) {
    CHECK(std::isnan(decode(DType::e5m2, static_cast<std::uint16_t>(code))));
  }
  CHECK(decode(DType::f16, 0x7C00) == kInfinity);
  CHECK(decode(DType::f16, 0xFC00) == -kInfinity);
  bool all_nan = true;
  for (std::uint32_t mantissa = 1; mantissa < 0x400; ++mantissa) {
    all_nan =
        all_nan && std::isnan(decode(DType::f16, static_cast<std::uint16_t>(0x7C00 | mantissa)));
  }
  CHECK(all_nan);
}

TEST_CASE("formats: e8m0 is a power of two, code 0 not zero, code 255 NaN") {
  double power = 0x1p-127;
  for (std::uint16_t code = 0; code < 255; ++code) {
    CAPTURE(code);
    CHECK(decode(DType::e8m0, code) == power);
    CHECK(encode(DType::e8m0, power) == code);
    // Anything above a power needs the next one; the last has none.
    const auto next = static_cast<std::uint16_t>(std::min(code + 1, 254));
    CHECK(encode(DType::e8m0, std::nextafter(power, kInfinity)) == next);
    CHECK(encode(DType::e8m0, power * 1.5) == next);
    power *= 2.0;
  }
  CHECK(std::isnan(decode(DType::e8m0, 255)));
  CHECK(encode(DType::e8m0, kNaN) == 255);
  CHECK(encode(DType::e8m0, kInfinity) == 254);
  CHECK(encode(DType::e8m0, std::numeric_limits<double>::max()) == 254);
  for (const double value : {0.0, -0.0, -1.0, -kInfinity, 0x1p-140, 0x1p-1074}) {
    CAPTURE(value);
    CHECK(encode(DType::e8m0, value) == 0);
  }
}

TEST_CASE("formats: encode rounds once to nearest even at and beside every midpoint") {
  for (const DType dtype : kTabled) {
    CAPTURE(to_string(dtype));
    const FloatTable table(dtype);
    std::string first_wrong;
    const auto compare = [&](double value) {
      for (const double signed_value : {value, -value}) {
        if (encode(dtype, signed_value) != table.encode(signed_value) && first_wrong.empty()) {
          first_wrong = std::to_string(signed_value);
        }
      }
    };
    for (std::size_t code = 0; code + 1 < table.values().size(); ++code) {
      const double low = table.values()[code];
      const double high = table.values()[code + 1];
      const double middle = (low + high) / 2.0;
      // One f64 ulp off the midpoint is lost by a detour over f32, whose tie then goes the wrong
      // way.
      for (const double center : {low, middle}) {
        compare(center);
        compare(std::nextafter(center, 0.0));
        compare(std::nextafter(center, kInfinity));
        const auto single = static_cast<float>(center);
        compare(static_cast<double>(std::nextafterf(single, 0.0F)));
        compare(
            static_cast<double>(std::nextafterf(single, std::numeric_limits<float>::infinity())));
      }
      compare(low + (high - low) * 0.3);
      compare(low + (high - low) * 0.7);
    }
    CHECK(first_wrong == "");
  }
}

TEST_CASE("formats: encode agrees with a search of the table over a dense sample") {
  for (const DType dtype : kTabled) {
    CAPTURE(to_string(dtype));
    const FloatTable table(dtype);
    int wrong = 0;
    for (const double unit : test::random_values(20000, 7)) {
      for (const double magnitude : {0x1p-16, 0x1p-4, 1.0, 500.0, 1e5, 1e39}) {
        const double value = unit * magnitude;
        wrong += encode(dtype, value) != table.encode(value) ? 1 : 0;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("formats: what is too large saturates in low precision and is Inf in 16 bits") {
  struct Row {
    double value;
    std::uint16_t code;
  };
  constexpr std::array<Row, 8> kE4m3{{{448.0, 0x7E},
                                      {464.0, 0x7E},
                                      {465.0, 0x7E},
                                      {1000.0, 0x7E},
                                      {-1000.0, 0xFE},
                                      {kInfinity, 0x7E},
                                      {-kInfinity, 0xFE},
                                      {kNaN, 0x7F}}};
  for (const Row& row : kE4m3) {
    CAPTURE(row.value);
    CHECK(encode(DType::e4m3, row.value) == row.code);
  }
  CHECK(encode(DType::e4m3, -kNaN) == 0x7F);
  CHECK(encode(DType::e5m2, kInfinity) == 0x7B);
  CHECK(encode(DType::e5m2, -61441.0) == 0xFB);
  CHECK(encode(DType::e5m2, -kNaN) == 0x7F);
  CHECK(encode(DType::e2m1, kInfinity) == 0x7);
  CHECK(encode(DType::e2m1, -1e300) == 0xF);
  CHECK(encode(DType::e2m1, -kNaN) == 0x7);
  CHECK(encode(DType::f16, 65519.0) == 0x7BFF);
  CHECK(encode(DType::f16, 65520.0) == 0x7C00);
  CHECK(encode(DType::f16, -kInfinity) == 0xFC00);
  CHECK(encode(DType::bf16, kInfinity) == 0x7F80);
  CHECK(encode(DType::bf16, -1e300) == 0xFF80);
  CHECK(encode(DType::bf16, kNaN) == 0x7FC0);
}

TEST_CASE("formats: zeros keep their sign") {
  for (const DType dtype : kTabled) {
    CHECK(encode(dtype, 0.0) == 0);
    CHECK(encode(dtype, -0.0) == FloatTable(dtype).sign());
    CHECK(encode(dtype, -0x1p-1074) == FloatTable(dtype).sign());
  }
}

TEST_CASE("formats: other types are refused") {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    test::check_throws<DTypeError>("formats", [&] { encode(dtype, 1.0); }, {to_string(dtype)});
    test::check_throws<DTypeError>("formats", [&] { decode(dtype, 1); }, {to_string(dtype)});
  }
}

}  // namespace
}  // namespace tape8
