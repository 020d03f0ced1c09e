// What NVFP4 has beside scales: stochastic rounding and the Hadamard transform.
#include "backend/block_cast_support.hpp"

namespace tape8::test {
namespace {

const BlockFormat kNvfp4{ScalingMode::nvfp4_1d, DType::e2m1};

/// The codes of a rowwise cast, one a value; x in rows of whole blocks.
std::vector<std::uint8_t> cast_codes(Backend& backend, const std::vector<float>& x,
                                     std::int64_t rows, std::int64_t cols, float amax,
                                     const StochasticRounding& rounding) {
  BlockFormat format = kNvfp4;
  format.rounding = rounding;
  BlockMemory memory(rows, cols, format, true, false, amax);
  const BlockOutput blocks = memory.output();
  backend.cast({.rows = rows, .cols = cols, .x = {x.data()}, .y = {.blocks = &blocks}});
  std::vector<Memory> results = memory.results();
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    codes.push_back((results[0].as<std::uint8_t>()[i / 2] >> (i % 2 * 4)) & 15U);
  }
  return codes;
}

/// With this amax and a 6 in every block, tensor and block scale are 1.
constexpr float kAmaxForOne = 2688.0F;

/// Rows of 16: a 6, and fifteen times the value.
std::vector<float> rows_of(float value, std::int64_t rows) {
  std::vector<float> x(static_cast<std::size_t>(rows * 16), value);
  for (std::size_t i = 0; i < x.size(); i += 16) x[i] = 6.0F;
  return x;
}

TEST_CASE("stochastic rounding: a value becomes its neighbours, on average itself") {
  constexpr std::int64_t kRows = 1 << 16;
  constexpr double kDraws = kRows * 15;
  const auto backend = cpu::make_backend(cpu::selected_isa());
  struct Case {
    float value;
    double below, above;
  };
  for (const Case& test :
       {Case{0.1F, 0, 0.5}, Case{0.7F, 0.5, 1}, Case{-1.25F, -1, -1.5}, Case{1.9F, 1.5, 2},
        Case{2.3F, 2, 3}, Case{3.5F, 3, 4}, Case{-5.9F, -4, -6}, Case{0.001F, 0, 0.5}}) {
    CAPTURE(test.value);
    const std::vector<std::uint8_t> codes =
        cast_codes(*backend, rows_of(test.value, kRows), kRows, 16, kAmaxForOne, {11, 3});
    double sum = 0.0;
    bool neighbours_alone = true;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (i % 16 == 0) continue;
      const double value = decode(DType::e2m1, codes[i]);
      neighbours_alone = neighbours_alone && (value == test.below || value == test.above);
      sum += value;
    }
    CHECK(neighbours_alone);
    const double place = (static_cast<double>(test.value) - test.below) / (test.above - test.below);
    const double error =
        std::abs(test.above - test.below) * std::sqrt(place * (1.0 - place) / kDraws);
    CHECK(std::abs(sum / kDraws - static_cast<double>(test.value)) < 4.0 * error);
  }
}

TEST_CASE("stochastic rounding: 4096 values of 1.25") {
  const auto backend = cpu::make_backend(cpu::selected_isa());
  std::vector<float> x(4096 + 16, 1.25F);
  for (std::size_t i = 0; i < 257; ++i) x[i * 16] = 6.0F;
  const auto codes = cast_codes(*backend, x, 257, 16, kAmaxForOne, {1, 1});
  double sum = 0.0;
  int count = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (i % 16 == 0) continue;
    CHECK((codes[i] == 2 || codes[i] == 3));
    sum += decode(DType::e2m1, codes[i]);
    ++count;
  }
  CHECK(std::abs(sum / count - 1.25) < 0.02);
}

TEST_CASE("stochastic rounding: exact values stay, NaN is +6, others stay in range") {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {6, 0.0F, -0.0F, 0.5F, -1, 1.5F, 2, -3, 4, -6, 5.999F, 1e-30F, 0, 0, 0, 0};
  const std::vector<std::uint8_t> expected = {7, 0, 8, 1, 10, 3, 4, 13, 6, 15};
  for (const cpu::Isa isa : cpu::available_isas()) {
    const auto backend = cpu::make_backend(isa);
    for (std::uint64_t cast = 0; cast < 64; ++cast) {
      const auto codes = cast_codes(*backend, x, 1, 16, kAmaxForOne, {9, cast});
      CHECK(std::equal(expected.begin(), expected.end(), codes.begin()));
      CHECK((codes[10] == 6 || codes[10] == 7));
      CHECK(codes[11] <= 1);
    }
    std::vector<float> special(16, -std::nanf(""));
    CHECK(cast_codes(*backend, special, 1, 16, 1.0F, {9, 1}) == std::vector<std::uint8_t>(16, 7));
    std::vector<float> infinite(16, -inf);
    CHECK(cast_codes(*backend, infinite, 1, 16, inf, {9, 1}) == std::vector<std::uint8_t>(16, 15));
  }
}

TEST_CASE("stochastic rounding: the bits depend on key, cast number and usage") {
  const std::vector<float> x = rows_of(1.2F, 64);
  const auto backend = cpu::make_backend(cpu::selected_isa());
  const auto codes = cast_codes(*backend, x, 64, 16, kAmaxForOne, {1, 1});
  CHECK(codes == cast_codes(*backend, x, 64, 16, kAmaxForOne, {1, 1}));
  for (const StochasticRounding other :
       {StochasticRounding{1, 2}, StochasticRounding{2, 1}, StochasticRounding{1, 1ULL << 40U},
        StochasticRounding{1ULL << 40U, 1}}) {
    const auto other_codes = cast_codes(*backend, x, 64, 16, kAmaxForOne, other);
    int different = 0;
    for (std::size_t i = 0; i < codes.size(); ++i) different += codes[i] != other_codes[i];
    CHECK(different > 100);  // of 960, with a probability of 0.48 each
  }
  // A symmetric matrix, so that the usages differ in nothing but their bits.
  std::vector<float> square(16 * 16, 1.2F);
  for (std::size_t i = 0; i < 16; ++i) square[i * 17] = 6.0F;
  BlockFormat format = kNvfp4;
  format.rounding = StochasticRounding{1, 1};
  BlockMemory memory(16, 16, format, true, true, kAmaxForOne, kAmaxForOne);
  const BlockOutput blocks = memory.output();
  backend->cast({.rows = 16, .cols = 16, .x = {square.data()}, .y = {.blocks = &blocks}});
  const std::vector<Memory> results = memory.results();
  CHECK(results[1] == results[3]);
  CHECK(!(results[0] == results[2]));
}

/// Casts x columnwise with the transform, and back.
std::vector<double> there_and_back(Backend& backend, const Memory& x, std::int64_t rows,
                                   std::int64_t cols, Amax* transformed) {
  BlockFormat format = kNvfp4;
  format.hadamard = true;
  backend.cast({.rows = rows, .cols = cols, .x = x.input(), .hadamard_amax = transformed});
  BlockMemory memory(rows, cols, format, false, true, 0.0F, transformed->value);
  const BlockOutput blocks = memory.output();
  backend.cast({.rows = rows, .cols = cols, .x = x.input(), .y = {.blocks = &blocks}});
  const BlockInput input{ScalingMode::nvfp4_1d, Usage::columnwise, blocks.columnwise.scale_inv,
                         true};
  Memory y(DType::f32, rows * cols);
  backend.cast(
      {.rows = rows,
       .cols = cols,
       .x = {blocks.columnwise.data, DType::e2m1, blocks.columnwise.tensor_scale_inv, &input},
       .y = y.output()});
  return y.values();
}

TEST_CASE("hadamard: one value spreads to sixteen of a quarter, and comes back exactly") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    const auto backend = cpu::make_backend(isa);
    for (std::int64_t place = 0; place < 16; ++place) {
      // Five columns, each with one value: +-4 / 4 everywhere, and amax 6 once, so that scales are
      // powers of two times 1.5 throughout and the codes are exact.
      std::vector<double> values(16 * 5, 0.0);
      for (std::int64_t c = 0; c < 5; ++c) {
        values[static_cast<std::size_t>(place * 5 + c)] = c % 2 == 0 ? 4.0 : -4.0;
      }
      const Memory x(DType::bf16, values);
      Amax amax;
      CHECK(there_and_back(*backend, x, 16, 5, &amax) == values);
      CHECK(amax.value == 1.0F);
    }
  }
}

TEST_CASE("hadamard: decoding undoes it, short blocks as well") {
  for (const std::int64_t rows : {1, 5, 16, 17, 100, 128, 250}) {
    CAPTURE(rows);
    const std::int64_t cols = 37;
    const Memory x(DType::f32, random_values(rows * cols, 12));
    for (const cpu::Isa isa : cpu::available_isas()) {
      const auto backend = cpu::make_backend(isa);
      Amax amax;
      const std::vector<double> y = there_and_back(*backend, x, rows, cols, &amax);
      double error = 0.0, size = 0.0;
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        error += std::pow(y[static_cast<std::size_t>(i)] - x[i], 2);
        size += x[i] * x[i];
      }
      // e2m1 has a relative error of about a tenth, and the transform keeps lengths.
      CHECK(std::sqrt(error / size) < 0.15);
    }
  }
}

TEST_CASE("hadamard_amax: with the amax, dbias and the values in one pass") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [rows, cols] :
         {std::pair<int, int>{1, 1}, {7, 33}, {130, 300}, {300, 700}, {33, 4200}}) {
      CAPTURE(rows);
      CAPTURE(cols);
      const std::int64_t count = std::int64_t{rows} * cols;
      const Memory x(dtype, random_values(count, 13, 1.0, 0.2));
      std::vector<float> values;
      std::vector<double> sums(static_cast<std::size_t>(cols), 0.0);
      for (std::int64_t i = 0; i < count; ++i) {
        values.push_back(static_cast<float>(x[i]));
        sums[static_cast<std::size_t>(i % cols)] += x[i];
      }
      const Lines lines = lines_of(values, rows, cols, Usage::columnwise);
      const auto results = same_everywhere([&](Backend& backend) {
        Memory dbias(DType::f32, cols), y(DType::bf16, count);
        Amax amax, transformed, again;
        backend.cast({.rows = rows,
                      .cols = cols,
                      .x = x.input(),
                      .y = {.amax = &amax},
                      .dbias = dbias.data(),
                      .hadamard_amax = &transformed});
        backend.cast(
            {.rows = rows, .cols = cols, .x = x.input(), .y = y.output(), .hadamard_amax = &again});
        CHECK(again == transformed);
        return std::vector{amax_memory(amax), amax_memory(transformed), dbias, y};
      });
      CHECK(results[0][0] == largest_of(values));
      CHECK(results[1][0] == largest_of(hadamard_lines(lines).values));
      CHECK(relative_error(results[2], sums) < tolerance(DType::f32));
      CHECK(results[3] == Memory(DType::bf16, std::vector<double>(values.begin(), values.end())));
    }
  }
}

TEST_CASE("hadamard_amax: NaN, Inf and nothing") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    const auto backend = cpu::make_backend(isa);
    Amax amax{3.0F};
    std::vector<double> values(40, 1.0);
    values[39] = std::nan("");
    backend->cast(
        {.rows = 40, .cols = 1, .x = Memory(DType::f32, values).input(), .hadamard_amax = &amax});
    CHECK(std::isnan(amax.value));
    backend->cast({.rows = 0, .cols = 4, .hadamard_amax = &amax});
    CHECK(amax.value == 0.0F);
  }
}

}  // namespace
}  // namespace tape8::test
