#pragma once

#include <cmath>
#include <cstdint>

#include <tape8/quantize/quantized_tensor.hpp>

#include "support/float_table.hpp"
#include "support/values.hpp"

namespace tape8::test {

/// What a matmul reads of a tensor: values in float64, [rows, cols].
struct Operand {
  Values values;
  std::int64_t rows = 0, cols = 0;  // rows may be more than the tensor's after a Hadamard transform
};

inline std::uint8_t byte_at(const Tensor& tensor, std::int64_t i) {
  return static_cast<const std::uint8_t*>(tensor.data())[i];
}

/// Decodes one usage's cast of a tensor that is [rows, cols] as a matrix, by the layout that
/// QuantizedPart describes.
inline Operand decode_operand(const QuantizedTensor& tensor, Usage usage, std::int64_t rows,
                              std::int64_t cols) {
  const QuantizedPart& part = tensor.operand(usage);
  const ScalingMode mode = part.scaling_mode;
  if (mode == ScalingMode::none) return {values_of(part.data), rows, cols};
  const DType dtype = part.data.dtype();
  const auto code_at = [&](std::int64_t i) {
    if (dtype != DType::e2m1) return byte_at(part.data, i);
    const std::uint8_t pair = byte_at(part.data, i / 2);
    return static_cast<std::uint8_t>(i % 2 == 0 ? pair & 0xFU : pair >> 4);
  };
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const bool rowwise = usage == Usage::rowwise;
  const ScalingBlock block = scaling_block(mode);
  const auto scale_at = [&](std::int64_t along, std::int64_t across) {
    if (mode == ScalingMode::per_tensor) {
      return static_cast<double>(part.scale_inv.item<float>());
    }
    const std::int64_t blocks_along = up(rowwise ? cols : rows, block.along);
    const std::int64_t blocks_across = up(rowwise ? rows : cols, block.across);
    const bool along_last = rowwise || is_nvfp4(mode);
    const std::int64_t i = along / block.along;
    const std::int64_t j = across / block.across;
    const std::int64_t index = along_last ? j * blocks_along + i : i * blocks_across + j;
    if (mode == ScalingMode::mxfp8_1d) return std::ldexp(1.0, byte_at(part.scale_inv, index) - 127);
    if (!is_nvfp4(mode)) {
      return static_cast<double>(static_cast<const float*>(part.scale_inv.data())[index]);
    }
    return float_table(DType::e4m3).decode(byte_at(part.scale_inv, index)) *
           static_cast<double>(part.tensor_scale_inv.item<float>());
  };
  Operand result{{}, part.hadamard ? up(rows, 16) * 16 : rows, cols};
  for (std::int64_t r = 0; r < result.rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t along = rowwise ? c : r;
      const std::int64_t across = rowwise ? r : c;
      const std::int64_t at =
          is_nvfp4(mode) ? across * up(rowwise ? cols : rows, 16) * 16 + along : r * cols + c;
      result.values.push_back(float_table(dtype).decode(code_at(at)) * scale_at(along, across));
    }
  }
  return result;
}

}  // namespace tape8::test
