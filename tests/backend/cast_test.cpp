#include <bit>

#include <tape8/core/error.hpp>

#include "backend/kernel_test.hpp"

namespace tape8::test {
namespace {

/// A float format as the list of its finite non-negative values: value_of[code].
struct Table {
  DType dtype;
  std::vector<double> value_of;
  double next;  // what the code after the last would stand for
  bool saturates;
  std::uint16_t nan;
  unsigned sign;
};

Table make_table(DType dtype, int exponent_bits, int mantissa_bits, int codes, bool saturates,
                 std::uint16_t nan) {
  Table table{dtype, {}, 0.0, saturates, nan, 1U << (exponent_bits + mantissa_bits)};
  const int bias = (1 << (exponent_bits - 1)) - 1;
  for (int code = 0; code <= codes; ++code) {
    const int exponent = code >> mantissa_bits;
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    const double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                       : std::ldexp((1 << mantissa_bits) + mantissa,
                                                    exponent - bias - mantissa_bits);
    if (code < codes) {
      table.value_of.push_back(value);
    } else {
      table.next = value;
    }
  }
  return table;
}

const std::vector<Table>& tables() {
  static const std::vector<Table> all = {
      make_table(DType::e4m3, 4, 3, 0x7F, true, 0x7F),
      make_table(DType::e5m2, 5, 2, 0x7C, true, 0x7F),
      make_table(DType::f16, 5, 10, 0x7C00, false, 0x7E00),
      make_table(DType::bf16, 8, 7, 0x7F80, false, 0x7FC0),
  };
  return all;
}

/// The code nearest to x, the even one of two.
std::uint16_t nearest(const Table& table, float x) {
  if (std::isnan(x)) return table.nan;
  const double magnitude = std::abs(static_cast<double>(x));
  const auto& values = table.value_of;
  const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
  auto code = static_cast<unsigned>(above - values.begin()) - 1;
  const bool last = above == values.end();
  const double middle = (values[code] + (last ? table.next : *above)) / 2;
  const bool up = magnitude > middle || (magnitude == middle && code % 2 == 1);
  if (up && !(last && table.saturates)) ++code;
  return static_cast<std::uint16_t>(code | (std::signbit(x) ? table.sign : 0U));
}

std::uint16_t code_at(Memory& memory, DType dtype, std::int64_t i) {
  return bits(dtype) == 8 ? memory.as<std::uint8_t>()[i] : memory.as<std::uint16_t>()[i];
}

/// Every value and midpoint of the table with its neighbours, both signs; and bits at random.
std::vector<float> dense_sample(const Table& table) {
  std::vector<float> sample;
  const float inf = std::numeric_limits<float>::infinity();
  const auto add = [&](double value) {
    const auto x = static_cast<float>(value);
    for (const float near : {x, std::nextafter(x, inf), std::nextafter(x, -inf)}) {
      sample.push_back(near);
      sample.push_back(-near);
    }
  };
  for (std::size_t code = 0; code < table.value_of.size(); ++code) {
    const double value = table.value_of[code];
    const bool last = code + 1 == table.value_of.size();
    add(value);
    add((value + (last ? table.next : table.value_of[code + 1])) / 2);
  }
  std::mt19937 generator(7);
  for (int i = 0; i < 50000; ++i)
    sample.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(generator())));
  for (const float x : {inf, -inf, std::nanf(""), -std::nanf(""), 3.4e38F, 1e-45F, 0.0F, -0.0F}) {
    sample.push_back(x);
  }
  return sample;
}

TEST_CASE("cast: every midpoint, value and neighbour from f32, byte for byte") {
  for (const Table& table : tables()) {
    CAPTURE(to_string(table.dtype));
    const std::vector<float> sample = dense_sample(table);
    const auto count = static_cast<std::int64_t>(sample.size());
    auto results = same_everywhere([&](Backend& backend) {
      Memory y(table.dtype, count);
      backend.cast({.rows = 1, .cols = count, .x = {sample.data(), DType::f32}, .y = y.output()});
      return std::vector{y};
    });
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint16_t expected = nearest(table, sample[static_cast<std::size_t>(i)]);
      if (code_at(results[0], table.dtype, i) != expected) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("cast: all 65536 codes of bf16 and f16, byte for byte") {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  for (const DType from : {DType::bf16, DType::f16}) {
    for (const Table& table : tables()) {
      CAPTURE(to_string(from));
      CAPTURE(to_string(table.dtype));
      auto results = same_everywhere([&](Backend& backend) {
        Memory y(table.dtype, 65536);
        backend.cast({.rows = 256, .cols = 256, .x = {codes.data(), from}, .y = y.output()});
        return std::vector{y};
      });
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < 65536; ++i) {
        const auto x = static_cast<float>(decode(from, static_cast<std::uint16_t>(i)));
        if (code_at(results[0], table.dtype, i) != nearest(table, x)) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("cast: every code decodes to its value, times scale_inv") {
  const ScaleInv scale_inv{0.3F};
  for (const Table& table : tables()) {
    CAPTURE(to_string(table.dtype));
    const auto count = static_cast<std::int64_t>(table.value_of.size());
    Memory x(table.dtype, 2 * count);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 2 * count; ++i) {
      const auto code = static_cast<unsigned>(i % count) | (i < count ? 0U : table.sign);
      if (bits(table.dtype) == 8) {
        x.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(code);
      } else {
        x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(code);
      }
      auto value = static_cast<float>(table.value_of[static_cast<std::size_t>(i % count)]);
      if (i >= count) value = -value;
      expected.push_back(is_fp8(table.dtype) ? value * scale_inv.value : value);
    }
    for (const DType to : {DType::f32, DType::f64}) {
      const auto results = same_everywhere([&](Backend& backend) {
        Memory y(to, 2 * count);
        backend.cast({.rows = 1, .cols = 2 * count, .x = x.input(&scale_inv), .y = y.output()});
        return std::vector{y};
      });
      CHECK(results[0] == Memory(to, expected));
    }
  }
}

TEST_CASE("cast: saturation, scale and amax") {
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<double> x = {448, 464, 465, 1000, -1000, inf, -inf, 1e-9};
  const Scale one, half{0.5F};
  for (const cpu::Isa isa : cpu::available_isas()) {
    CAPTURE(cpu::to_string(isa));
    const auto backend = cpu::make_backend(isa);
    const Memory source(DType::f32, x);
    Memory y(DType::e4m3, 8);
    Amax amax;
    backend->cast({.rows = 2, .cols = 4, .x = source.input(), .y = y.output(&amax, &one)});
    CHECK(y.values() == std::vector<double>{448, 448, 448, 448, -448, 448, -448, 0});
    CHECK(amax.value == inf);

    const Memory finite(DType::bf16, {600, -3, 0.001, -700});
    Memory scaled(DType::e4m3, 4);
    backend->cast({.rows = 1, .cols = 4, .x = finite.input(), .y = scaled.output(&amax, &half)});
    CHECK(scaled.values() ==
          std::vector<double>{288, -1.5, 0, -352});  // 600, 700 in bf16 are exact
    CHECK(amax.value == 700.0F);

    // The amax alone; a NaN wins over Inf.
    const Memory with_nan(DType::f32, {1.0, -nan, inf, 2.0, 1.0});
    backend->cast({.rows = 1, .cols = 5, .x = with_nan.input(), .y = {.amax = &amax}});
    CHECK(std::isnan(amax.value));
    backend->cast({.rows = 0, .cols = 5, .x = with_nan.input(), .y = {.amax = &amax}});
    CHECK(amax.value == 0.0F);
  }
}

TEST_CASE("cast: any count, nothing written past the end, dbias to the last column") {
  for (std::int64_t cols = 0; cols <= 70; ++cols) {
    CAPTURE(cols);
    const Memory x(DType::bf16, random_values(3 * cols, 11));
    const auto results = same_everywhere([&](Backend& backend) {
      Memory y(DType::e5m2, 3 * cols), dbias(DType::f32, cols);
      Amax amax;
      backend.cast({.rows = 3, .cols = cols, .x = x.input(), .y = y.output(&amax)});
      Memory with_sums(DType::e5m2, 3 * cols);
      backend.cast({.rows = 3,
                    .cols = cols,
                    .x = x.input(),
                    .y = with_sums.output(),
                    .dbias = dbias.data()});
      CHECK(y == with_sums);
      return std::vector{y, dbias, amax_memory(amax)};
    });
    double largest = 0.0;
    for (std::int64_t c = 0; c < cols; ++c) {
      CHECK(results[1][c] == doctest::Approx(x[c] + x[cols + c] + x[2 * cols + c]).epsilon(1e-5));
      for (int r = 0; r < 3; ++r) largest = std::max(largest, std::abs(x[r * cols + c]));
    }
    CHECK(results[2][0] == largest);
  }
}

TEST_CASE("cast: dbias is summed in f32 from the values before the cast") {
  const Memory ones(DType::bf16, std::vector<double>(4096 * 8, 1.0));
  const Memory x(DType::bf16, random_values(3000 * 123, 3, 1.0, 0.5));
  const auto results = same_everywhere([&](Backend& backend) {
    Memory sum_of_ones(DType::f32, 8), sums(DType::f32, 123), y(DType::e4m3, 3000 * 123);
    backend.cast({.rows = 4096, .cols = 8, .x = ones.input(), .dbias = sum_of_ones.data()});
    backend.cast(
        {.rows = 3000, .cols = 123, .x = x.input(), .y = y.output(), .dbias = sums.data()});
    return std::vector{sum_of_ones, sums};
  });
  CHECK(results[0].values() == std::vector<double>(8, 4096.0));
  std::vector<double> reference(123, 0.0);
  for (std::int64_t i = 0; i < x.count(); ++i) reference[static_cast<std::size_t>(i % 123)] += x[i];
  CHECK(relative_error(results[1], reference) < tolerance(DType::f32));
}

TEST_CASE("cast: f64 is rounded once") {
  // Just above the midpoint of 1 and 1.125: by way of f32 it would be the midpoint, and go to even.
  const Memory x(DType::f64, {1.0625 + 0x1p-40, -3.0, 1e300});
  const Scale scale{2.0F};
  for (const cpu::Isa isa : cpu::available_isas()) {
    const auto backend = cpu::make_backend(isa);
    Memory y(DType::e4m3, 3), wide(DType::f64, 3), sums(DType::f64, 1);
    Amax amax;
    backend->cast({.rows = 3, .cols = 1, .x = x.input(), .y = y.output(&amax, &scale)});
    CHECK(y.values() == std::vector<double>{2.25, -6, 448});
    CHECK(std::isinf(amax.value));  // 1e300 in f32
    backend->cast({.rows = 3, .cols = 1, .x = x.input(), .y = wide.output(), .dbias = sums.data()});
    CHECK(wide == x);
    CHECK(sums[0] == 1e300);
  }
}

TEST_CASE(
    "cast, add, all_finite: types that a kernel lacks are refused before anything is written") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    const auto backend = cpu::make_backend(isa);
    const Memory x(DType::f32, {1.0, 2.0});
    Memory y(DType::u8, 2);
    const Memory before = y;
    CHECK_THROWS_WITH_AS(backend->cast({.rows = 1, .cols = 2, .x = x.input(), .y = y.output()}),
                         doctest::Contains("cpu: cast: "), UnsupportedError);
    CHECK_THROWS_AS(backend->cast({.rows = 1, .cols = 2, .x = {x.data(), DType::e2m1}}),
                    UnsupportedError);
    CHECK_THROWS_AS(backend->all_finite(2, {x.data(), DType::i32}), UnsupportedError);
    CHECK(y == before);
  }
}

TEST_CASE("add: in place as well, rounded once") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(to_string(dtype));
    const Memory a(dtype, random_values(300001, 1)), b(dtype, random_values(300001, 2));
    std::vector<double> reference;
    for (std::int64_t i = 0; i < a.count(); ++i) {
      reference.push_back(
          dtype == DType::f64 ? a[i] + b[i] : static_cast<float>(a[i]) + static_cast<float>(b[i]));
    }
    const auto results = same_everywhere([&](Backend& backend) {
      Memory y(dtype, a.count()), in_place = a;
      backend.binary({.count = a.count(), .a = a.input(), .b = b.input(), .y = y.output()});
      backend.binary(
          {.count = a.count(), .a = in_place.input(), .b = b.input(), .y = in_place.output()});
      CHECK(y == in_place);
      return std::vector{y};
    });
    CHECK(results[0] == Memory(dtype, reference));
  }
}

TEST_CASE("all_finite: one value that is not decides, wherever it is") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::e5m2}) {
    for (const cpu::Isa isa : cpu::available_isas()) {
      const auto backend = cpu::make_backend(isa);
      for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{5001}}) {
        std::vector<double> values(count, 1.0);
        CHECK(backend->all_finite(static_cast<std::int64_t>(count), Memory(dtype, values).input()));
        values[count - 1] = std::nan("");
        CHECK(
            !backend->all_finite(static_cast<std::int64_t>(count), Memory(dtype, values).input()));
      }
      CHECK(backend->all_finite(0, Memory(dtype, std::vector<double>{}).input()));
      const Memory inf(DType::f16, {1.0, -std::numeric_limits<double>::infinity()});
      CHECK(!backend->all_finite(2, inf.input()));
    }
  }
}

}  // namespace
}  // namespace tape8::test
