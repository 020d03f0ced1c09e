#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tape8/core/scaling.hpp>

#include "backend/backend.hpp"
#include "backend/gemm_support.hpp"
#include "core/formats.hpp"

// Operands of every kind as tables of codes, and how backend.hpp has them lie in memory.

namespace tape8::gemm_test {

struct Kind {
  DType dtype = DType::bf16;
  ScalingMode mode = ScalingMode::none;
  bool wide = false;  // has values that bf16 has not
};

inline std::string describe(const Kind& kind) {
  return std::string(to_string(kind.mode)) + " " + std::string(to_string(kind.dtype)) +
         (kind.wide ? " wide" : "");
}

inline std::int64_t count_of(std::int64_t size, std::int64_t block) {
  return (size + block - 1) / block;
}

/// What the value of a code is, of f32 as well.
inline double decode_any(DType dtype, std::uint32_t code) {
  if (dtype == DType::f32) return std::bit_cast<float>(code);
  return decode(dtype, static_cast<std::uint16_t>(code));
}

/// An operand in memory.
struct Laid {
  std::vector<std::uint8_t> data, scales;
  GemmOperand operand;
};

/// Rows of k values each: those of a, or the columns of b.
class Operand {
 public:
  Operand(const Kind& operand_kind, std::int64_t row_count, std::int64_t k_count)
      : kind(operand_kind),
        rows(row_count),
        k(k_count),
        padded_k(is_nvfp4(kind.mode) ? count_of(k, 16) * 16 : k),
        codes_(index(rows * padded_k)) {
    if (!is_block_scaled(kind.mode)) return;
    block_ = scaling_block(kind.mode);
    row_blocks = count_of(rows, block_.across);
    k_blocks = count_of(k, block_.along);
    scales_.resize(index(row_blocks * k_blocks));
  }

  std::uint32_t& code(std::int64_t row, std::int64_t at) {
    return codes_[index(row * padded_k + at)];
  }
  std::uint32_t& scale(std::int64_t row_block, std::int64_t k_block) {
    return scales_[index(row_block * k_blocks + k_block)];
  }

  float value(std::int64_t row, std::int64_t at) const {
    const double value = decode_any(kind.dtype, codes_[index(row * padded_k + at)]);
    if (scales_.empty()) return static_cast<float>(value);
    const std::int64_t block = row / block_.across * k_blocks + at / block_.along;
    return static_cast<float>(value * decode_any(scale_dtype(kind.mode), scales_[index(block)]));
  }

  /// [rows, depth]
  std::vector<float> values(std::int64_t depth) const {
    std::vector<float> result;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t at = 0; at < depth; ++at) result.push_back(value(r, at));
    }
    return result;
  }

  /// Memory has k last (rowwise usage of a) or first.
  Laid lay(bool k_last, bool transposed) const {
    Laid laid;
    if (kind.dtype == DType::e2m1) {
      for (std::size_t i = 0; i < codes_.size(); i += 2) {
        laid.data.push_back(static_cast<std::uint8_t>(codes_[i] | codes_[i + 1] << 4));
      }
    } else {
      laid.data = bytes_of(codes_, rows, k, k_last, bits(kind.dtype) / 8);
    }
    laid.scales = bytes_of(scales_, row_blocks, k_blocks, k_last, bits(scale_dtype(kind.mode)) / 8);
    laid.operand = {.data = laid.data.data(),
                    .dtype = kind.dtype,
                    .transposed = transposed,
                    .scaling_mode = kind.mode,
                    .block_scale_inv = scales_.empty() ? nullptr : laid.scales.data()};
    return laid;
  }
  Laid as_a(bool transposed) const { return lay(!transposed, transposed); }
  Laid as_b(bool transposed) const { return lay(transposed, transposed); }
  /// False for layouts that the kind does not have.
  bool lies(bool k_last) const { return k_last || !is_nvfp4(kind.mode); }

  const Kind kind;
  const std::int64_t rows, k, padded_k;
  std::int64_t row_blocks = 0, k_blocks = 0;

 private:
  /// A matrix [outer, inner] or its transpose, the lowest byte of an element first.
  static std::vector<std::uint8_t> bytes_of(const std::vector<std::uint32_t>& table,
                                            std::int64_t outer, std::int64_t inner, bool plain,
                                            int size) {
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < outer * inner; ++i) {
      const std::int64_t at = plain ? i : i % outer * inner + i / outer;
      for (int byte = 0; byte < size; ++byte) {
        bytes.push_back(static_cast<std::uint8_t>(table[index(at)] >> (8 * byte)));
      }
    }
    return bytes;
  }

  ScalingBlock block_;
  std::vector<std::uint32_t> codes_, scales_;
};

inline float random_power(std::mt19937_64& engine, int lowest, int count) {
  const auto step = static_cast<int>(engine() % static_cast<std::uint64_t>(count));
  return std::ldexp(1.0F, lowest + step);
}

/// A scale of ordinary size, as a code.
inline std::uint32_t random_scale(const Kind& kind, std::mt19937_64& engine) {
  const float power = random_power(engine, -6, 9);
  const DType dtype = scale_dtype(kind.mode);
  if (dtype == DType::f32) return std::bit_cast<std::uint32_t>(power);
  const float mantissa = 1.0F + static_cast<float>(engine() % 8) / 8.0F;
  return encode(dtype, dtype == DType::e4m3 ? power * mantissa : power);
}

/// Normal values and scales of ordinary size; a fifth of the blocks are zeros. What lies past k is
/// neither.
inline Operand random_operand(const Kind& kind, std::int64_t rows, std::int64_t k,
                              std::uint64_t seed) {
  Operand operand(kind, rows, k);
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> distribution;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t at = 0; at < operand.padded_k; ++at) {
      const float value = distribution(engine);
      operand.code(r, at) = kind.dtype == DType::f32 ? std::bit_cast<std::uint32_t>(value)
                                                     : encode(kind.dtype, 2.0 * value);
    }
  }
  if (!is_block_scaled(kind.mode)) return operand;
  const ScalingBlock block = scaling_block(kind.mode);
  for (std::int64_t r = 0; r < operand.row_blocks; ++r) {
    for (std::int64_t b = 0; b < operand.k_blocks; ++b) {
      operand.scale(r, b) = random_scale(kind, engine);
      if (engine() % 5 != 0) continue;
      // As casts leave them; the least power of two is the scale of MXFP8's.
      if (scale_dtype(kind.mode) != DType::f32) operand.scale(r, b) = 0;
      for (std::int64_t row = r * block.across; row < std::min(rows, (r + 1) * block.across);
           ++row) {
        for (std::int64_t at = b * block.along; at < std::min(k, (b + 1) * block.along); ++at) {
          operand.code(row, at) = 0;
        }
      }
    }
  }
  // The last scale alone is no power of two.
  if (kind.wide && scale_dtype(kind.mode) == DType::f32) {
    operand.scale(operand.row_blocks - 1, operand.k_blocks - 1) =
        std::bit_cast<std::uint32_t>(0.3F);
  }
  return operand;
}

inline constexpr Kind kBlockKinds[] = {{DType::e4m3, ScalingMode::mxfp8_1d},
                                       {DType::e5m2, ScalingMode::mxfp8_1d},
                                       {DType::e4m3, ScalingMode::float8_block_1d},
                                       {DType::e5m2, ScalingMode::float8_block_1d},
                                       {DType::e4m3, ScalingMode::float8_block_2d},
                                       {DType::e4m3, ScalingMode::float8_block_1d, true},
                                       {DType::e5m2, ScalingMode::float8_block_2d, true},
                                       {DType::e2m1, ScalingMode::nvfp4_1d},
                                       {DType::e2m1, ScalingMode::nvfp4_2d}};
inline constexpr Kind kPlainKinds[] = {{DType::bf16},
                                       {DType::e4m3, ScalingMode::per_tensor},
                                       {DType::e5m2, ScalingMode::per_tensor},
                                       {DType::f32, ScalingMode::none, true},
                                       {DType::f16, ScalingMode::none, true}};

}  // namespace tape8::gemm_test
