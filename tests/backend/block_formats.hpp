#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace tape8::test {

/// What to cast to: a BlockOutput without its memory.
struct BlockFormat {
  ScalingMode scaling_mode = ScalingMode::mxfp8_1d;
  DType dtype = DType::e4m3;
  bool power_of_2_scale = true;
  bool hadamard = false;
  std::optional<StochasticRounding> rounding = {};
};

/// The same, as an op takes it. `format` has to outlive it.
inline BlockOutput output_of(const BlockFormat& format) {
  return {.scaling_mode = format.scaling_mode,
          .dtype = format.dtype,
          .power_of_2_scale = format.power_of_2_scale,
          .hadamard = format.hadamard,
          .rounding = format.rounding ? &*format.rounding : nullptr,
          .rowwise = {},
          .columnwise = {}};
}

inline float largest_of(const std::vector<float>& values) {
  float amax = 0.0F;
  for (const float value : values) {
    if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
    amax = std::max(amax, std::abs(value));
  }
  return amax;
}

inline std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A matrix with an operand's lines as rows: those that a matmul contracts along.
struct Lines {
  std::int64_t count = 0, length = 0;
  std::vector<float> values;

  float at(std::int64_t line, std::int64_t i) const {
    return line < count && i < length ? values[static_cast<std::size_t>(line * length + i)] : 0.0F;
  }
};

inline Lines lines_of(const std::vector<float>& x, std::int64_t rows, std::int64_t cols,
                      Usage usage) {
  if (usage == Usage::rowwise) return {rows, cols, x};
  Lines lines{cols, rows, {}};
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) {
      lines.values.push_back(x[static_cast<std::size_t>(r * cols + c)]);
    }
  }
  return lines;
}

/// Each 16 values of a line, zeros past its end, times a matrix of +-1/4 in the order of a
/// butterfly.
inline Lines hadamard_lines(const Lines& x) {
  const std::array<int, 16> signs{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};
  Lines y{x.count, up(x.length, 16) * 16, {}};
  for (std::int64_t line = 0; line < x.count; ++line) {
    for (std::int64_t first = 0; first < x.length; first += 16) {
      std::array<float, 16> v{};
      for (std::size_t i = 0; i < 16; ++i) {
        const float value = x.at(line, first + static_cast<std::int64_t>(i));
        v[i] = signs[i] > 0 ? value : -value;
      }
      for (std::size_t stride = 1; stride < 16; stride *= 2) {
        const std::array<float, 16> before = v;
        for (std::size_t i = 0; i < 16; ++i) {
          v[i] = i % (2 * stride) < stride ? before[i] + before[i + stride]
                                           : before[i - stride] - before[i];
        }
      }
      for (const float value : v) y.values.push_back(value * 0.25F);
    }
  }
  return y;
}

/// The amaxes that an nvfp4 cast of x is given.
inline std::array<float, 2> cast_amaxes(const std::vector<float>& x, std::int64_t rows,
                                        std::int64_t cols, const BlockFormat& format) {
  const Lines lines = lines_of(x, rows, cols, Usage::columnwise);
  return {largest_of(x), largest_of(format.hadamard ? hadamard_lines(lines).values : x)};
}

/// Bytes of the data of one usage, whose lines a matmul contracts along.
inline std::int64_t data_bytes(const BlockFormat& format, std::int64_t lines, std::int64_t length) {
  return is_nvfp4(format.scaling_mode) ? lines * up(length, 16) * 8 : lines * length;
}

inline std::int64_t scale_count(const BlockFormat& format, std::int64_t lines,
                                std::int64_t length) {
  const ScalingBlock block = scaling_block(format.scaling_mode);
  return up(lines, block.across) * up(length, block.along);
}

/// Formats of every mode.
inline std::vector<BlockFormat> block_formats() {
  std::vector<BlockFormat> formats;
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    formats.push_back({ScalingMode::mxfp8_1d, dtype});
    for (const bool power_of_2 : {true, false}) {
      formats.push_back({ScalingMode::float8_block_1d, dtype, power_of_2});
      formats.push_back({ScalingMode::float8_block_2d, dtype, power_of_2});
    }
  }
  const StochasticRounding rounding{0x123456789ABCDEF, 0x300000007};
  for (const bool stochastic : {false, true}) {
    BlockFormat format{ScalingMode::nvfp4_1d, DType::e2m1};
    if (stochastic) format.rounding = rounding;
    formats.push_back(format);
    format.hadamard = true;
    formats.push_back(format);
    format.hadamard = false;
    format.scaling_mode = ScalingMode::nvfp4_2d;
    formats.push_back(format);
  }
  return formats;
}

inline std::string name_of(const BlockFormat& format) {
  std::string name =
      std::string(to_string(format.scaling_mode)) + " " + std::string(to_string(format.dtype));
  if (!format.power_of_2_scale) name += " any scale";
  if (format.hadamard) name += " hadamard";
  if (format.rounding) name += " stochastic";
  return name;
}

/// Makes values of a matrix differ in magnitude from block to block.
inline std::vector<double> made_uneven(std::vector<double> x, std::int64_t cols) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / cols;
    const std::int64_t col = static_cast<std::int64_t>(i) % cols;
    x[i] = std::ldexp(x[i], static_cast<int>((row / 16 * 7 + col / 16 * 5) % 13 - 6));
  }
  return x;
}

/// Makes blocks of zeros, of denormals, of huge values, of those where an e8m0 scale begins, with
/// an Inf, with a NaN, each in its place.
inline std::vector<double> made_special(std::vector<double> x, std::int64_t cols) {
  const double inf = std::numeric_limits<double>::infinity();
  const double largest = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / cols;
    const std::int64_t col = static_cast<std::int64_t>(i) % cols;
    const auto square = (row / 16 + 3 * (col / 16)) % 11;
    if (square == 1) x[i] = 0.0;
    if (square == 2) x[i] = -0.0;
    if (square == 3) x[i] = std::ldexp(x[i], -140);
    if (square == 4) x[i] = std::copysign(largest, x[i]);
    if (square == 5) x[i] = std::copysign(448.0 * 0x1p-127, x[i]);
    if (square == 6) x[i] = std::copysign(448.5 * 0x1p-127, x[i]);
    const auto place = (row * 31 + col * 17) % 997;
    if (place == 5) x[i] = std::copysign(inf, x[i]);
    if (place == 300) x[i] = std::nan("");
  }
  return x;
}

}  // namespace tape8::test
