#include "gradcheck/decode.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace tape8::tools::gradcheck {
namespace {

constexpr std::int64_t kHadamardSize = 16;
constexpr std::array<double, kHadamardSize> kHadamardSigns{1,  1,  1,  -1, 1,  -1, -1, -1,
                                                           -1, -1, -1, 1,  -1, 1,  -1, -1};

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A float of 8 bits with so many of mantissa, the exponent's bias being half of its range.
double small_float(std::uint8_t byte, int mantissa_bits) {
  const int exponent_bits = 7 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (byte & 0x7F) >> mantissa_bits;
  const int mantissa = byte & ((1 << mantissa_bits) - 1);
  const int units = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  const double magnitude = std::ldexp(units, std::max(exponent, 1) - bias - mantissa_bits);
  return (byte & 0x80) != 0 ? -magnitude : magnitude;
}

double e2m1(int code) {
  constexpr std::array<double, 8> kMagnitudes{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double magnitude = kMagnitudes[static_cast<std::size_t>(code & 7)];
  return (code & 8) != 0 ? -magnitude : magnitude;
}

/// Element `index` of contiguous values or scales of any type.
double element(const Tensor& tensor, std::int64_t index) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto* bytes = static_cast<const std::uint8_t*>(tensor.data());
  switch (tensor.dtype()) {
    case DType::e4m3:
      return (bytes[index] & 0x7F) == 0x7F ? kNaN : small_float(bytes[index], 3);
    case DType::e5m2:
      return (bytes[index] & 0x7F) > 0x7B ? kNaN : small_float(bytes[index], 2);
    case DType::e2m1:
      return e2m1(index % 2 == 0 ? bytes[index / 2] & 0xF : bytes[index / 2] >> 4);
    case DType::e8m0:
      return bytes[index] == 0xFF ? kNaN : std::ldexp(1.0, bytes[index] - 127);
    default:
      return double{tensor.span<float>()[static_cast<std::size_t>(index)]};
  }
}

}  // namespace

Matrix decode(const QuantizedPart& part, Usage usage, std::int64_t rows, std::int64_t cols) {
  if (part.scaling_mode == ScalingMode::none) return {rows, cols, part.data.to_vector<double>()};
  const bool rowwise = usage == Usage::rowwise;
  const bool in_blocks = is_block_scaled(part.scaling_mode);
  const bool contracted_last = rowwise || is_nvfp4(part.scaling_mode);
  const ScalingBlock block = scaling_block(part.scaling_mode);
  const std::int64_t along_size = rowwise ? cols : rows;
  const std::int64_t across_size = rowwise ? rows : cols;
  // NVFP4 stores whole blocks of the contracted axis.
  const std::int64_t row_length =
      is_nvfp4(part.scaling_mode) ? divide_up(along_size, block.along) * block.along : cols;
  const double tensor_scale =
      part.tensor_scale_inv.defined() ? element(part.tensor_scale_inv, 0) : 1.0;

  Matrix result = zeros(part.hadamard ? row_length : rows, cols);
  for (std::int64_t row = 0; row < result.rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      const std::int64_t along = rowwise ? col : row;
      const std::int64_t across = rowwise ? row : col;
      const std::int64_t place =
          contracted_last ? across * row_length + along : along * row_length + across;
      std::int64_t scale = 0;
      if (in_blocks) {
        scale = contracted_last ? across / block.across * divide_up(along_size, block.along) +
                                      along / block.along
                                : along / block.along * divide_up(across_size, block.across) +
                                      across / block.across;
      }
      result.at(row, col) =
          element(part.data, place) * element(part.scale_inv, scale) * tensor_scale;
    }
  }
  return result;
}

Matrix hadamard_transformed(const Matrix& a) {
  Matrix result = zeros(divide_up(a.rows, kHadamardSize) * kHadamardSize, a.cols);
  for (std::int64_t row = 0; row < result.rows; ++row) {
    const std::int64_t first = row / kHadamardSize * kHadamardSize;
    for (std::int64_t i = 0; i < kHadamardSize && first + i < a.rows; ++i) {
      // Sylvester's matrix has a minus where an odd number of bits is in both indices.
      const bool minus = std::popcount(static_cast<std::uint64_t>((row - first) & i)) % 2 != 0;
      const double factor = (minus ? -0.25 : 0.25) * kHadamardSigns[static_cast<std::size_t>(i)];
      for (std::int64_t col = 0; col < a.cols; ++col) {
        result.at(row, col) += factor * a.at(first + i, col);
      }
    }
  }
  return result;
}

}  // namespace tape8::tools::gradcheck
