#include <bit>

#include <tape8/core/error.hpp>

#include "backend/block_cast_support.hpp"
#include "support/sanitizer.hpp"

namespace tape8::test {
namespace {

using Shape2 = std::array<std::int64_t, 2>;

/// Shapes that divide by blocks and do not; more than one tile; more than one thread's work.
const std::vector<Shape2> kShapes = {{1, 1},     {1, 256},   {7, 33},    {31, 127},  {33, 129},
                                     {16, 16},   {17, 31},   {64, 1},    {128, 128}, {130, 300},
                                     {300, 700}, {40, 4200}, {130, 1100}};
constexpr std::size_t kSmallShapes = 10;

/// Values whose magnitude differs from block to block.
std::vector<double> uneven_values(const Shape2& shape, unsigned seed) {
  return made_uneven(random_values(shape[0] * shape[1], seed), shape[1]);
}

/// The same with blocks of what is not just numbers.
std::vector<double> special_values(const Shape2& shape, unsigned seed) {
  return made_special(uneven_values(shape, seed), shape[1]);
}

/// Casts x to each usage, alone and together, and compares with the reference.
void check_cast(const Memory& x, const Shape2& shape, const BlockFormat& format,
                const ScaleInv* scale_inv = nullptr) {
  const std::int64_t rows = shape[0], cols = shape[1];
  std::vector<float> values;
  for (const double value : x.values()) {
    values.push_back(static_cast<float>(value) * (scale_inv ? scale_inv->value : 1.0F));
  }
  const std::array<float, 2> amax = cast_amaxes(values, rows, cols, format);
  const BlockBytes rowwise = cast_reference(values, rows, cols, format, Usage::rowwise);
  const BlockBytes columnwise = cast_reference(values, rows, cols, format, Usage::columnwise);
  const auto cast = [&](Backend& backend, bool want_rowwise, bool want_columnwise) {
    BlockMemory memory(rows, cols, format, want_rowwise, want_columnwise, amax[0], amax[1]);
    const BlockOutput blocks = memory.output();
    backend.cast({.rows = rows, .cols = cols, .x = x.input(scale_inv), .y = {.blocks = &blocks}});
    return memory.results();
  };
  const auto results = same_everywhere([&](Backend& backend) {
    std::vector<Memory> both = cast(backend, true, true);
    const std::vector<Memory> first = cast(backend, true, false);
    const std::vector<Memory> second = cast(backend, false, true);
    CHECK(both[0] == first[0]);
    CHECK(both[1] == first[1]);
    CHECK(both[2] == second[2]);
    CHECK(both[3] == second[3]);
    return both;
  });
  CHECK(holds(results[0], rowwise.data));
  CHECK(holds(results[1], rowwise.scale_inv));
  CHECK(holds(results[2], columnwise.data));
  CHECK(holds(results[3], columnwise.scale_inv));
  if (!is_nvfp4(format.scaling_mode)) return;
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  CHECK(same(results[4][0], rowwise.tensor_scale_inv));
  CHECK(same(results[4][1], columnwise.tensor_scale_inv));
}

TEST_CASE("block cast: data and scales of every mode, shape and type, byte for byte") {
  for (const BlockFormat& format : block_formats()) {
    CAPTURE(name_of(format));
    for (const Shape2& shape : affordable(kShapes, kSmallShapes)) {
      CAPTURE(shape[0]);
      CAPTURE(shape[1]);
      const std::vector<double> x = uneven_values(shape, 5);
      check_cast(Memory(DType::bf16, x), shape, format);
      if (shape[0] * shape[1] > 40000) continue;
      check_cast(Memory(DType::f32, x), shape, format);
      check_cast(Memory(DType::f16, x), shape, format);
      const ScaleInv scale_inv{0.3F};
      check_cast(Memory(DType::e4m3, x), shape, format, &scale_inv);
    }
  }
}

TEST_CASE("block cast: zeros, denormals, huge values, Inf and NaN, byte for byte") {
  for (const BlockFormat& format : block_formats()) {
    CAPTURE(name_of(format));
    for (const Shape2& shape : {Shape2{7, 33}, Shape2{130, 300}, Shape2{16, 16}}) {
      CAPTURE(shape[0]);
      const std::vector<double> x = special_values(shape, 6);
      check_cast(Memory(DType::f32, x), shape, format);
      check_cast(Memory(DType::bf16, x), shape, format);
    }
  }
}

TEST_CASE("block cast: a matrix of one value") {
  const double largest = std::numeric_limits<float>::max();
  const double inf = std::numeric_limits<double>::infinity();
  for (const BlockFormat& format : block_formats()) {
    CAPTURE(name_of(format));
    for (const double value : {0.0, -0.0, 0x1p-149, 0x1p-126, 1e-40, 1.0, largest, -inf,
                               std::nan(""), 448.0, 57344.0, 6.0}) {
      CAPTURE(value);
      check_cast(Memory(DType::f32, std::vector<double>(20 * 20, value)), {20, 20}, format);
    }
  }
}

TEST_CASE("block cast: mxfp8 codes of amaxes at, and next to, every power of two") {
  std::vector<float> amaxes;
  for (const float largest : {448.0F, 57344.0F}) {
    for (int exponent = -149; exponent <= 127; ++exponent) {
      const auto power = static_cast<float>(std::ldexp(1.0, exponent));
      for (const float factor : {1.0F, largest, 1.5F * largest}) {
        const float amax = power * factor;
        if (!std::isfinite(amax)) continue;
        for (const int step : {-2, -1, 0, 1, 2}) {
          const auto bits = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(amax)) + step;
          if (bits >= 0) amaxes.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
        }
      }
    }
  }
  const auto count = static_cast<std::int64_t>(amaxes.size());
  std::vector<double> x(amaxes.size() * 32, 0.0);
  for (std::size_t i = 0; i < amaxes.size(); ++i) x[i * 32 + i % 32] = -amaxes[i];
  const Memory matrix(DType::f32, x);
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    check_cast(matrix, {count, 32}, {ScalingMode::mxfp8_1d, dtype});
  }
}

TEST_CASE("block cast: dbias, amax and a cast without blocks agree with each other") {
  const Memory ones(DType::bf16, std::vector<double>(4096 * 8, 1.0));
  const Shape2 shape{600, 123};
  const Memory x(DType::bf16, random_values(shape[0] * shape[1], 3, 1.0, 0.5));
  std::vector<double> sums(123, 0.0);
  double largest = 0.0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    sums[static_cast<std::size_t>(i % 123)] += x[i];
    largest = std::max(largest, std::abs(x[i]));
  }
  for (const BlockFormat& format : block_formats()) {
    CAPTURE(name_of(format));
    const auto results = same_everywhere([&](Backend& backend) {
      Memory sum_of_ones(DType::f32, 8), dbias(DType::f32, 123);
      BlockMemory small(4096, 8, format, true, true, 1.0F, 4.0F);
      const BlockOutput small_blocks = small.output();
      backend.cast({.rows = 4096,
                    .cols = 8,
                    .x = ones.input(),
                    .y = {.blocks = &small_blocks},
                    .dbias = sum_of_ones.data()});
      BlockMemory memory(shape[0], shape[1], format, true, true, 4.0F, 16.0F);
      BlockMemory alone = memory;
      const BlockOutput blocks = memory.output(), blocks_alone = alone.output();
      Amax amax;
      backend.cast({.rows = shape[0],
                    .cols = shape[1],
                    .x = x.input(),
                    .y = {.amax = &amax, .blocks = &blocks},
                    .dbias = dbias.data()});
      backend.cast(
          {.rows = shape[0], .cols = shape[1], .x = x.input(), .y = {.blocks = &blocks_alone}});
      CHECK(memory.results() == alone.results());
      return std::vector{sum_of_ones, dbias, amax_memory(amax)};
    });
    CHECK(results[0].values() == std::vector<double>(8, 4096.0));
    CHECK(relative_error(results[1], sums) < tolerance(DType::f32));
    CHECK(results[2][0] == largest);
  }
}

TEST_CASE("block cast: no rows or no columns") {
  for (const BlockFormat& format : block_formats()) {
    CAPTURE(name_of(format));
    for (const Shape2& shape : {Shape2{0, 5}, Shape2{5, 0}, Shape2{0, 0}}) {
      const auto results = same_everywhere([&](Backend& backend) {
        const Memory x(DType::f32, 0);
        BlockMemory memory(shape[0], shape[1], format, true, true);
        const BlockOutput blocks = memory.output();
        Memory dbias(DType::f32, shape[1]);
        backend.cast({.rows = shape[0],
                      .cols = shape[1],
                      .x = x.input(),
                      .y = {.blocks = &blocks},
                      .dbias = dbias.data()});
        return std::vector{dbias};
      });
      CHECK(results[0].values() == std::vector<double>(static_cast<std::size_t>(shape[1]), 0.0));
    }
  }
}

TEST_CASE("block cast: what the kernels lack is refused before anything is written") {
  for (const cpu::Isa isa : cpu::available_isas()) {
    const auto backend = cpu::make_backend(isa);
    const Memory x(DType::f32, std::vector<double>(64, 1.0)), wide(DType::f64, {1.0});
    Memory gamma(DType::f32, {1.0});
    const auto refused = [&](BlockFormat format, const char* op, const auto& call) {
      BlockMemory memory(8, 8, format, true, true);
      const BlockMemory before = memory;
      const BlockOutput blocks = memory.output();
      CHECK_THROWS_WITH_AS(call(blocks), doctest::Contains(op), UnsupportedError);
      CHECK(memory.results() == before.results());
    };
    const BlockFormat mxfp8{ScalingMode::mxfp8_1d, DType::e4m3};
    const auto cast = [&](const BlockOutput& blocks) {
      backend->cast({.rows = 8, .cols = 8, .x = x.input(), .y = {.blocks = &blocks}});
    };
    refused({ScalingMode::mxfp8_1d, DType::e2m1}, "cpu: cast: ", cast);
    refused({ScalingMode::nvfp4_1d, DType::e4m3}, "cpu: cast: ", cast);
    refused({ScalingMode::mxfp8_1d, DType::bf16}, "cpu: cast: ", cast);
    refused({ScalingMode::nvfp4_2d, DType::e2m1, true, true}, "cpu: cast: ", cast);
    refused(mxfp8, "cpu: cast: ", [&](const BlockOutput& blocks) {
      backend->cast({.rows = 1, .cols = 1, .x = wide.input(), .y = {.blocks = &blocks}});
    });
    refused(mxfp8, "cpu: norm_backward: ", [&](const BlockOutput& blocks) {
      backend->norm_backward({.rows = 1,
                              .cols = 1,
                              .dy = x.input(),
                              .x = x.input(),
                              .gamma = gamma.data(),
                              .mu = gamma.data(),
                              .rsigma = gamma.data(),
                              .dx = {.blocks = &blocks}});
    });
    refused(mxfp8, "cpu: binary: ", [&](const BlockOutput& blocks) {
      backend->binary({.count = 8, .a = x.input(), .b = x.input(), .y = {.blocks = &blocks}});
    });
    refused(mxfp8, "cpu: dropout: ", [&](const BlockOutput& blocks) {
      backend->dropout({.count = 8, .x = x.input(), .y = {.blocks = &blocks}});
    });
    refused(mxfp8, "cpu: gemm: ", [&](const BlockOutput& blocks) {
      backend->gemm({.m = 1,
                     .n = 1,
                     .k = 1,
                     .a = {.data = x.data()},
                     .b = {.data = x.data()},
                     .d = {.blocks = &blocks}});
    });
    const BlockInput block_input{.scaling_mode = ScalingMode::mxfp8_1d};
    Memory y(DType::f32, 8);
    const Memory before = y;
    CHECK_THROWS_WITH_AS(
        backend->scale(
            {.count = 8, .x = {.data = x.data(), .blocks = &block_input}, .y = y.output()}),
        doctest::Contains("cpu: scale: "), UnsupportedError);
    CHECK(y == before);
  }
}

}  // namespace
}  // namespace tape8::test
