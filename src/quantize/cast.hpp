#pragma once

#include <cstdint>

#include <tape8/quantize/quantized_tensor.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "backend/backend.hpp"

namespace tape8 {

/// A tensor as a matrix whose columns are summed while it is cast.
struct DbiasSum {
  std::int64_t rows = 0, cols = 0;
  Stat* dbias = nullptr;  // [cols], or null: nothing is summed
};

struct CastTensor {
  QuantizedTensor tensor;
  Amax amax;  // of what was cast; 0 without a quantizer
};

/// `values` cast by `quantizer` or, without one, converted to `dtype` (shared when they have it
/// already). Notes the amax where this thread's casts are noted, unless there are no elements.
CastTensor cast_tensor(const Tensor& values, const Quantizer& quantizer, DType dtype,
                       const DbiasSum& sum = {});

/// Where a kernel writes values that a quantizer is to cast, and what becomes of them. Delayed
/// scaling casts them as they are computed; current scaling, whose scale depends on all of them,
/// needs a second pass. Without a quantizer they are stored as `dtype`.
///
///     CastTarget target(quantizer, shape, dtype, device);
///     backend.norm({..., .y = target.output()});
///     QuantizedTensor z = target.finish();
class CastTarget {
 public:
  CastTarget(const Quantizer& quantizer, const Shape& shape, DType dtype, const Device& device);
  CastTarget(const CastTarget&) = delete;
  CastTarget& operator=(const CastTarget&) = delete;

  /// Points into this object.
  Output output();
  /// After the kernel has run: the tensor. Notes the amax as cast_tensor() does.
  QuantizedTensor finish();
  Amax amax() const { return amax_; }

 private:
  Quantizer quantizer_;
  bool one_pass_;  // the kernel itself casts
  QuantizedPart part_;
  Scale scale_;
  Amax amax_;
};

}  // namespace tape8
