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

  /// NVFP4: what set_amax() needs to know before the cast: the values' amax, and that of the
  /// transformed ones.
  bool needs_amax() const;
  bool needs_hadamard_amax() const { return output_.hadamard; }
  void set_amax(Amax values, Amax transformed);

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
  std::array<Amax, 2> amax_;
  std::array<QuantizedPart, 2> parts_;
  BlockOutput output_;
};

}  // namespace tape8
