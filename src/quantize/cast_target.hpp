#pragma once

#include <memory>
#include <tape8/quantize/quantized_tensor.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "backend/backend.hpp"
#include "quantize/quantizer_state.hpp"

namespace tape8 {

/// Where a kernel writes values that are to be cast by a quantizer as they are computed, and what
/// becomes of them. Without a quantizer they are stored as `dtype`.
///
///     CastTarget target(quantizer, shape, dtype);
///     backend.norm({..., .y = target.output()});
///     QuantizedTensor z = target.finish();
class CastTarget {
 public:
  CastTarget(const Quantizer& quantizer, const Shape& shape, DType dtype,
             const Device& device = {});
  CastTarget(const CastTarget&) = delete;
  CastTarget& operator=(const CastTarget&) = delete;

  /// Points into this object.
  Output output();
  /// After the kernel has run: the tensor. Notes the amax of what was cast, unless it had no
  /// elements.
  QuantizedTensor finish();
  Amax amax() const { return amax_; }

 private:
  std::shared_ptr<QuantizerState> quantizer_;
  QuantizedPart part_;
  Scale scale_;
  Amax amax_;
};

}  // namespace tape8
