#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <tape8/core/rng.hpp>

#include "backend/block_formats.hpp"
#include "backend/kernel_test.hpp"

namespace tape8::test {

/// One usage's bytes.
struct BlockBytes {
  std::vector<std::uint8_t> data, scale_inv;
  float tensor_scale_inv = 1.0F;
};

/// The smallest power of two that v does not exceed, as an e8m0 code.
inline std::uint8_t e8m0_reference(float v) {
  if (std::isnan(v)) return 255;
  if (std::isinf(v)) return 254;
  if (v == 0.0F) return 0;
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(v), &exponent);  // in [0.5, 1)
  if (mantissa == 0.5) --exponent;
  return static_cast<std::uint8_t>(std::clamp(exponent + 127, 0, 254));
}

/// A block's scale as its bytes, and what the values are multiplied by.
struct BlockScale {
  std::vector<std::uint8_t> bytes;
  float multiplier;
};

template <class T>
std::vector<std::uint8_t> bytes_of(T value) {
  std::vector<std::uint8_t> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline BlockScale scale_reference(const BlockFormat& format, float amax, float tensor_scale) {
  const float largest = low_precision_max(format.dtype);
  const float kMax = std::numeric_limits<float>::max();
  if (format.scaling_mode == ScalingMode::mxfp8_1d) {
    const std::uint8_t code = e8m0_reference(amax / largest);
    const float multiplier =
        code == 255 ? std::nanf("") : static_cast<float>(std::ldexp(1.0, 127 - code));
    return {{code}, multiplier};
  }
  if (is_nvfp4(format.scaling_mode)) {
    const auto code = static_cast<std::uint8_t>(encode(DType::e4m3, amax / 6.0F * tensor_scale));
    const auto scale = static_cast<float>(decode(DType::e4m3, code)) * (1.0F / tensor_scale);
    return {{code}, std::fmin(1.0F / scale, kMax)};
  }
  float scale = amax == 0.0F || !std::isfinite(amax) ? 1.0F : std::min(largest / amax, kMax);
  if (format.power_of_2_scale) {
    int exponent = 0;
    std::frexp(scale, &exponent);
    scale = std::ldexp(1.0F, exponent - 1);
  }
  return {bytes_of(1.0F / scale), scale};
}

inline float tensor_scale_reference(float amax) {
  const float scale = 2688.0F / amax;
  if (std::isinf(scale)) return std::numeric_limits<float>::max();
  return scale == 0.0F ? 1.0F : scale;
}

/// The 16 random bits of an element.
inline std::uint32_t random_bits_reference(const StochasticRounding& rounding, Usage usage,
                                           std::int64_t element) {
  const auto block = static_cast<std::uint64_t>(element / 8);
  const auto words = philox(rounding.key, {static_cast<std::uint32_t>(block & 0xFFFFFFFFU),
                                           static_cast<std::uint32_t>(block >> 32U) |
                                               (usage == Usage::columnwise ? 0x80000000U : 0U),
                                           static_cast<std::uint32_t>(rounding.cast & 0xFFFFFFFFU),
                                           static_cast<std::uint32_t>(rounding.cast >> 32U)});
  const auto half = static_cast<std::size_t>(element % 8);
  return half % 2 == 0 ? words[half / 2] & 0xFFFFU : words[half / 2] >> 16U;
}

/// The neighbour below, or the one above where the value's place between them exceeds the number.
inline std::uint8_t stochastic_reference(float value, std::uint32_t bits) {
  if (std::isnan(value)) return 7;
  const std::array<double, 8> values{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double magnitude = std::min(std::abs(static_cast<double>(value)), 6.0);
  std::uint8_t code = 7;
  while (values[code] > magnitude) --code;
  if (code < 7) {
    const double place = (magnitude - values[code]) / (values[code + 1U] - values[code]);
    if (place > (bits + 0.5) / 65536.0) ++code;
  }
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 8U : 0U));
}

/// One usage of x, cast by plain loops. nvfp4's amax is that of all values.
inline BlockBytes cast_reference(const std::vector<float>& x, std::int64_t rows, std::int64_t cols,
                                 const BlockFormat& format, Usage usage) {
  const ScalingBlock block = scaling_block(format.scaling_mode);
  const bool nvfp4 = is_nvfp4(format.scaling_mode);
  Lines lines = lines_of(x, rows, cols, usage);
  if (format.hadamard && usage == Usage::columnwise) lines = hadamard_lines(lines);
  const std::int64_t length = nvfp4 ? up(lines.length, 16) * 16 : lines.length;
  const std::int64_t along_blocks = up(lines.length, block.along);
  const std::int64_t across_blocks = up(lines.count, block.across);
  const float tensor_scale = nvfp4 ? tensor_scale_reference(largest_of(lines.values)) : 1.0F;

  std::vector<BlockScale> scales;
  for (std::int64_t a = 0; a < across_blocks; ++a) {
    for (std::int64_t b = 0; b < along_blocks; ++b) {
      std::vector<float> values;
      for (std::int64_t line = a * block.across; line < (a + 1) * block.across; ++line) {
        for (std::int64_t i = b * block.along; i < (b + 1) * block.along; ++i) {
          values.push_back(lines.at(line, i));
        }
      }
      scales.push_back(scale_reference(format, largest_of(values), tensor_scale));
    }
  }
  const auto scale_of = [&](std::int64_t line, std::int64_t i) {
    return scales[static_cast<std::size_t>(line / block.across * along_blocks + i / block.along)];
  };
  const auto code_of = [&](std::int64_t line, std::int64_t i) -> unsigned {
    const float value = lines.at(line, i) * scale_of(line, i).multiplier;
    if (!format.rounding) return encode(format.dtype, value);
    const std::int64_t element = usage == Usage::rowwise ? line * cols + i : i * cols + line;
    return stochastic_reference(value, random_bits_reference(*format.rounding, usage, element));
  };

  BlockBytes result;
  result.tensor_scale_inv = 1.0F / tensor_scale;
  if (nvfp4) {
    for (std::int64_t line = 0; line < lines.count; ++line) {
      for (std::int64_t i = 0; i < length; i += 2) {
        result.data.push_back(
            static_cast<std::uint8_t>(code_of(line, i) | code_of(line, i + 1) << 4U));
      }
    }
    for (const BlockScale& scale : scales) {
      result.scale_inv.insert(result.scale_inv.end(), scale.bytes.begin(), scale.bytes.end());
    }
    return result;
  }
  // FP8 lies as the matrix does, its scales as well.
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const unsigned code = usage == Usage::rowwise ? code_of(r, c) : code_of(c, r);
      result.data.push_back(static_cast<std::uint8_t>(code));
    }
  }
  const bool rowwise = usage == Usage::rowwise;
  for (std::int64_t r = 0; r < (rowwise ? across_blocks : along_blocks); ++r) {
    for (std::int64_t c = 0; c < (rowwise ? along_blocks : across_blocks); ++c) {
      const std::int64_t at = rowwise ? r * along_blocks + c : c * along_blocks + r;
      const std::vector<std::uint8_t>& bytes = scales[static_cast<std::size_t>(at)].bytes;
      result.scale_inv.insert(result.scale_inv.end(), bytes.begin(), bytes.end());
    }
  }
  return result;
}

/// Memory of a block cast's results and the BlockOutput that points to it.
class BlockMemory {
 public:
  BlockMemory(std::int64_t rows, std::int64_t cols, const BlockFormat& format, bool rowwise,
              bool columnwise, float rowwise_amax = 0.0F, float columnwise_amax = 0.0F)
      : format_(format),
        data_{Memory(DType::u8, rowwise ? data_bytes(format, rows, cols) : 0),
              Memory(DType::u8, columnwise ? data_bytes(format, cols, rows) : 0)},
        scales_{Memory(scale_type(), rowwise ? scale_count(format, rows, cols) : 0),
                Memory(scale_type(), columnwise ? scale_count(format, cols, rows) : 0)},
        amax_{Amax{rowwise_amax}, Amax{columnwise_amax}},
        wanted_{rowwise, columnwise} {}

  BlockOutput output() {
    BlockOutput blocks = output_of(format_);
    const auto part = [&](std::size_t i) {
      if (!wanted_[i]) return BlockPart{};
      return BlockPart{data_[i].data(), scales_[i].data(), &amax_[i], &tensor_scale_inv_[i]};
    };
    blocks.rowwise = part(0);
    blocks.columnwise = part(1);
    return blocks;
  }

  /// All bytes that were written.
  std::vector<Memory> results() const {
    return {data_[0], scales_[0], data_[1], scales_[1],
            Memory(DType::f32, {tensor_scale_inv_[0].value, tensor_scale_inv_[1].value})};
  }

 private:
  DType scale_type() const {
    return scale_dtype(format_.scaling_mode) == DType::f32 ? DType::f32 : DType::u8;
  }

  BlockFormat format_;
  std::array<Memory, 2> data_, scales_;
  std::array<Amax, 2> amax_;
  std::array<ScaleInv, 2> tensor_scale_inv_{ScaleInv{}, ScaleInv{}};
  std::array<bool, 2> wanted_;
};

inline bool holds(const Memory& memory, const std::vector<std::uint8_t>& bytes) {
  return std::memcmp(memory.data(), bytes.data(), bytes.size()) == 0;
}

}  // namespace tape8::test
