#pragma once

#include <array>
#include <cstdint>

#include <tape8/core/dtype.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/scaling.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {

/// A tensor as a matrix: its axes from some one on are the columns.
struct MatrixShape {
  std::int64_t rows = 0, cols = 0;
};
/// Throws ShapeError unless `flatten_axis`, which may count from the end, is one of shape's axes or
/// their number (one column). A scalar is one row of one column.
TAPE8_API MatrixShape matrix_shape(const Shape& shape, int flatten_axis = -1);

/// One buffer that a matmul can read: values, and what they are multiplied by after decoding. With
/// [R, C] the tensor as a matrix, and (along, across) of its mode's scaling_block():
///
///     mode              usage       data                      scale_inv (sizes rounded up)
///     per_tensor        both        as the tensor             one f32
///     mxfp8_1d          rowwise     as the tensor             [R, C / 32], e8m0
///                       columnwise  as the tensor             [R / 32, C]
///     float8_block_*    rowwise     as the tensor             [R / across, C / along], f32
///                       columnwise  as the tensor             [R / along, C / across]
///     nvfp4_*           rowwise     [R, C up to 16s], e2m1    [R / across, C / 16], e4m3
///                       columnwise  [C, R up to 16s]          [C / across, R / 16]
struct QuantizedPart {
  Tensor data;       ///< e4m3, e5m2 or e2m1; any type for mode none
  Tensor scale_inv;  ///< undefined for mode none
  ScalingMode scaling_mode = ScalingMode::none;
  DType dq_dtype = DType::f32;  ///< what dequantize() rounds to
  Tensor tensor_scale_inv;      ///< nvfp4: one f32 that multiplies all blocks
  bool hadamard = false;        ///< columnwise nvfp4: the values were transformed
};

/// A tensor as matmuls use it. A per-tensor cast serves both usages from one buffer; block scales
/// lie along the contracted axis, so each usage has a cast of its own. A tensor that is not
/// quantized is an operand with scaling mode none.
class TAPE8_API QuantizedTensor {
 public:
  QuantizedTensor() = default;
  explicit QuantizedTensor(Tensor tensor);  ///< not quantized
  /// One buffer for both usages: mode none or per_tensor. Throws DTypeError or ShapeError for a
  /// part that is not as its scaling mode says.
  explicit QuantizedTensor(QuantizedPart both);
  /// Casts with block scales of a tensor of that shape; one of them may be none. Throws likewise.
  QuantizedTensor(const Shape& shape, int flatten_axis, QuantizedPart rowwise,
                  QuantizedPart columnwise);

  bool defined() const { return has(Usage::rowwise) || has(Usage::columnwise); }
  bool has(Usage usage) const { return part(usage).data.defined(); }
  const Shape& shape() const { return shape_; }
  bool is_quantized() const;

  const QuantizedPart& rowwise() const { return operand(Usage::rowwise); }
  const QuantizedPart& columnwise() const { return operand(Usage::columnwise); }
  /// The buffer for a usage; throws StateError when there is none.
  const QuantizedPart& operand(Usage usage) const;
  /// This tensor without what the other usage alone reads.
  QuantizedTensor only(Usage usage) const;

  /// float(q) * scale_inv, rounded to dq_dtype: of the rowwise cast, else of the columnwise one,
  /// its Hadamard transform undone.
  Tensor dequantize() const;

 private:
  const QuantizedPart& part(Usage usage) const { return parts_[static_cast<std::size_t>(usage)]; }

  Shape shape_;
  int flatten_axis_ = -1;
  std::array<QuantizedPart, 2> parts_;  // by usage; the same memory where one buffer serves both
};

}  // namespace tape8
