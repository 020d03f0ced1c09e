#pragma once

#include <array>
#include <optional>

#include <tape8/quantize/quantized_tensor.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "backend/backend.hpp"
#include "quantize/cast_request.hpp"

namespace tape8 {

/// The shapes of a part's data and scale_inv; see QuantizedPart.
struct BlockCastShapes {
  Shape data, scale_inv;
};
BlockCastShapes block_cast_shapes(ScalingMode mode, Usage usage, const Shape& shape,
                                  MatrixShape matrix);

/// The memory of a cast with block scales, as kernels are told of it.
class BlockCast {
 public:
  BlockCast(const Quantizer& quantizer, const Shape& shape, DType dtype, const CastRequest& request,
            const Device& device);
  BlockCast(const BlockCast&) = delete;
  BlockCast& operator=(const BlockCast&) = delete;

  /// Where NVFP4 wants the values' amax, and that of the transformed ones, before the cast; null:
  /// not wanted.
  Amax* amax();
  Amax* hadamard_amax();

  /// Points into this object.
  const BlockOutput& output() const { return output_; }
  /// After the kernel has run.
  QuantizedTensor finish();

 private:
  void allocate(Usage usage, const Device& device);

  Shape shape_;
  int flatten_axis_;
  DType dq_dtype_;
  ScalingMode mode_;
  std::optional<StochasticRounding> rounding_;
  Tensor amax_, hadamard_amax_;  // f32 of one element
  std::array<QuantizedPart, 2> parts_;
  BlockOutput output_;
};

}  // namespace tape8
