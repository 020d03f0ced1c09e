#pragma once

#include <tape8/core/dtype.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/scaling.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {

/// One buffer that a matmul can read: values, and what they are multiplied by after decoding.
struct QuantizedPart {
  Tensor data;       ///< e4m3 or e5m2 bytes; any type for mode none
  Tensor scale_inv;  ///< f32; per_tensor: one value; none: undefined
  ScalingMode scaling_mode = ScalingMode::none;
  DType dq_dtype = DType::f32;  ///< what dequantize() rounds to
};

/// A tensor as matmuls use it. A per-tensor cast serves both usages from one buffer; a tensor that
/// is not quantized is an operand with scaling mode none.
class TAPE8_API QuantizedTensor {
 public:
  QuantizedTensor() = default;
  explicit QuantizedTensor(Tensor tensor);  ///< not quantized
  /// Throws DTypeError or ShapeError for a part that is not as its scaling mode says.
  explicit QuantizedTensor(QuantizedPart both);  ///< one buffer for both usages

  bool defined() const { return part_.data.defined(); }
  const Shape& shape() const { return part_.data.shape(); }
  bool is_quantized() const { return part_.scaling_mode != ScalingMode::none; }

  const QuantizedPart& rowwise() const { return operand(Usage::rowwise); }
  const QuantizedPart& columnwise() const { return operand(Usage::columnwise); }
  /// The buffer for a usage; throws StateError when this tensor is none.
  const QuantizedPart& operand(Usage usage) const;

  /// float(q) * scale_inv, rounded to dq_dtype.
  Tensor dequantize() const;

 private:
  QuantizedPart part_;
};

}  // namespace tape8
