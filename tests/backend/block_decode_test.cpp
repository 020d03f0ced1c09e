// Block-scaled matrices as the input of a cast.
#include "backend/block_cast_support.hpp"

namespace tape8::test {
namespace {

using Shape2 = std::array<std::int64_t, 2>;

float stored_scale(const BlockFormat& format, const BlockBytes& bytes, std::int64_t at) {
  const auto i = static_cast<std::size_t>(at);
  if (scale_dtype(format.scaling_mode) == DType::f32) {
    float scale = 0.0F;
    std::memcpy(&scale, bytes.scale_inv.data() + i * sizeof(float), sizeof(float));
    return scale;
  }
  return static_cast<float>(decode(scale_dtype(format.scaling_mode), bytes.scale_inv[i]));
}

/// The values of one usage's bytes, by plain loops: [rows, cols].
std::vector<float> decode_reference(const BlockBytes& bytes, std::int64_t rows, std::int64_t cols,
                                    const BlockFormat& format, Usage usage) {
  const ScalingBlock block = scaling_block(format.scaling_mode);
  const bool rowwise = usage == Usage::rowwise;
  const bool nvfp4 = is_nvfp4(format.scaling_mode);
  const std::int64_t count = rowwise ? rows : cols, length = rowwise ? cols : rows;
  const std::int64_t along_blocks = up(length, block.along);
  const std::int64_t across_blocks = up(count, block.across);
  const std::int64_t padded = nvfp4 ? along_blocks * 16 : length;
  Lines lines{count, padded, {}};
  for (std::int64_t line = 0; line < count; ++line) {
    for (std::int64_t i = 0; i < padded; ++i) {
      const std::int64_t a = line / block.across, b = i / block.along;
      // NVFP4's lines are memory's rows; FP8 lies as the matrix does.
      const std::int64_t code_at = nvfp4 || rowwise ? line * padded + i : i * cols + line;
      const std::int64_t scale_at = nvfp4 || rowwise ? a * along_blocks + b : b * across_blocks + a;
      const std::uint8_t byte = bytes.data[static_cast<std::size_t>(nvfp4 ? code_at / 2 : code_at)];
      const unsigned code = nvfp4 ? (byte >> (code_at % 2 * 4)) & 15U : byte;
      const auto q = static_cast<float>(decode(format.dtype, static_cast<std::uint16_t>(code)));
      lines.values.push_back(q * stored_scale(format, bytes, scale_at) * bytes.tensor_scale_inv);
    }
  }
  if (format.hadamard && !rowwise) {
    // The transform is its own inverse but for the signs, which come first.
    const std::vector<int> signs{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};
    for (std::size_t i = 0; i < lines.values.size(); ++i) {
      if (signs[i % 16] < 0) lines.values[i] = -lines.values[i];
    }
    lines = hadamard_lines(lines);
    for (std::size_t i = 0; i < lines.values.size(); ++i) {
      if (signs[i % 16] < 0) lines.values[i] = -lines.values[i];
    }
  }
  std::vector<float> x;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) x.push_back(rowwise ? lines.at(r, c) : lines.at(c, r));
  }
  return x;
}

BlockInput block_input(const BlockBytes& bytes, const BlockFormat& format, Usage usage) {
  return {.scaling_mode = format.scaling_mode,
          .usage = usage,
          .scale_inv = bytes.scale_inv.data(),
          .hadamard = format.hadamard && usage == Usage::columnwise};
}

std::vector<double> doubles_of(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

std::vector<float> random_floats(const Shape2& shape, unsigned seed) {
  std::vector<float> x;
  for (const double value : random_values(shape[0] * shape[1], seed)) {
    x.push_back(static_cast<float>(value));
  }
  return x;
}

TEST_CASE("block decode: the values of every mode, usage and shape, rounded once") {
  for (const BlockFormat& format : block_formats()) {
    CAPTURE(name_of(format));
    for (const Shape2& shape : {Shape2{1, 1}, Shape2{7, 33}, Shape2{33, 129}, Shape2{130, 300},
                                Shape2{300, 700}, Shape2{20, 4200}}) {
      CAPTURE(shape[0]);
      CAPTURE(shape[1]);
      const std::int64_t rows = shape[0], cols = shape[1];
      const std::vector<float> x = random_floats(shape, 9);
      for (const Usage usage : {Usage::rowwise, Usage::columnwise}) {
        const BlockBytes bytes = cast_reference(x, rows, cols, format, usage);
        const std::vector<float> expected = decode_reference(bytes, rows, cols, format, usage);
        const BlockInput blocks = block_input(bytes, format, usage);
        const ScaleInv scale_inv{bytes.tensor_scale_inv};
        const Input input{.data = bytes.data.data(),
                          .dtype = format.dtype,
                          .scale_inv = is_nvfp4(format.scaling_mode) ? &scale_inv : nullptr,
                          .blocks = &blocks};
        const auto results = same_everywhere([&](Backend& backend) {
          Memory f32(DType::f32, rows * cols), bf16(DType::bf16, rows * cols);
          Memory f16(DType::f16, rows * cols), dbias(DType::f32, cols);
          Amax amax;
          backend.cast({.rows = rows, .cols = cols, .x = input, .y = f32.output(&amax)});
          backend.cast(
              {.rows = rows, .cols = cols, .x = input, .y = bf16.output(), .dbias = dbias.data()});
          backend.cast({.rows = rows, .cols = cols, .x = input, .y = f16.output()});
          return std::vector{f32, bf16, f16, dbias, amax_memory(amax)};
        });
        CHECK(results[0] == Memory(DType::f32, doubles_of(expected)));
        CHECK(results[1] == Memory(DType::bf16, doubles_of(expected)));
        CHECK(results[2] == Memory(DType::f16, doubles_of(expected)));
        CHECK(results[4][0] == largest_of(expected));
        std::vector<double> sums(static_cast<std::size_t>(cols), 0.0);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          sums[i % static_cast<std::size_t>(cols)] += static_cast<double>(expected[i]);
        }
        // Sums of a few hundred values cancel up to a tenth.
        CHECK(relative_error(results[3], sums) < 10 * tolerance(DType::f32));
        // Near what was cast: within half a last place for FP8; e2m1 has one bit of mantissa.
        double error = 0.0, size = 0.0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          error += std::pow(static_cast<double>(expected[i]) - static_cast<double>(x[i]), 2);
          size += std::pow(static_cast<double>(x[i]), 2);
        }
        const double bound = format.dtype == DType::e4m3   ? 0x1p-4
                             : format.dtype == DType::e5m2 ? 0x1p-3
                                                           : 0x1p-2;
        CHECK(std::sqrt(error / size) < bound);
      }
    }
  }
}

TEST_CASE("block decode: from one block scaling to another") {
  const Shape2 shape{70, 150};
  const std::vector<float> x = random_floats(shape, 10);
  const BlockFormat from{ScalingMode::nvfp4_1d, DType::e2m1, true, true};
  const BlockFormat to{ScalingMode::mxfp8_1d, DType::e4m3};
  const BlockBytes bytes = cast_reference(x, shape[0], shape[1], from, Usage::columnwise);
  const std::vector<float> values =
      decode_reference(bytes, shape[0], shape[1], from, Usage::columnwise);
  const BlockBytes expected = cast_reference(values, shape[0], shape[1], to, Usage::rowwise);
  const BlockInput input_blocks = block_input(bytes, from, Usage::columnwise);
  const ScaleInv scale_inv{bytes.tensor_scale_inv};
  const auto results = same_everywhere([&](Backend& backend) {
    BlockMemory memory(shape[0], shape[1], to, true, true);
    const BlockOutput blocks = memory.output();
    backend.cast({.rows = shape[0],
                  .cols = shape[1],
                  .x = {bytes.data.data(), from.dtype, &scale_inv, &input_blocks},
                  .y = {.blocks = &blocks}});
    return memory.results();
  });
  CHECK(holds(results[0], expected.data));
  CHECK(holds(results[1], expected.scale_inv));
}

TEST_CASE("block decode: scales that are NaN, zero, and the extremes of e8m0") {
  const std::vector<std::uint8_t> ones(32 * 4, 0x38);  // 1 in e4m3
  const std::vector<std::uint8_t> codes{0, 127, 254, 255};
  const BlockInput blocks{ScalingMode::mxfp8_1d, Usage::rowwise, codes.data()};
  const std::vector<std::uint8_t> nibbles(16, 0x22);  // 1 in e2m1
  const std::vector<std::uint8_t> bytes{0x7F, 0x00};
  const BlockInput nvfp4{ScalingMode::nvfp4_1d, Usage::rowwise, bytes.data()};
  const auto results = same_everywhere([&](Backend& backend) {
    Memory y(DType::f32, 128), z(DType::f32, 32);
    backend.cast({.rows = 1,
                  .cols = 128,
                  .x = {.data = ones.data(), .dtype = DType::e4m3, .blocks = &blocks},
                  .y = y.output()});
    backend.cast({.rows = 1,
                  .cols = 32,
                  .x = {.data = nibbles.data(), .dtype = DType::e2m1, .blocks = &nvfp4},
                  .y = z.output()});
    return std::vector{y, z};
  });
  CHECK(results[0][0] == 0x1p-127);
  CHECK(results[0][32] == 1.0);
  CHECK(results[0][64] == 0x1p127);
  CHECK(std::isnan(results[0][96]));
  CHECK(std::isnan(results[1][0]));
  CHECK(results[1][16] == 0.0);
}

}  // namespace
}  // namespace tape8::test
