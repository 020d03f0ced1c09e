#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <tape8/autograd/variable.hpp>
#include <tape8/quantize/quantized_tensor.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "quantize/cast_request.hpp"

namespace tape8 {

/// The casts of one parameter that still hold: its memory has the version they were made of and,
/// for quantized ones, their quantizer still has the scale and the usages are among theirs.
/// Microbatches so share one cast, bit for bit.
class WeightCasts {
 public:
  /// `weight` cast by `quantizer` or, without one, converted to `dtype`. A cast that is reused
  /// notes its amax again, so that a frozen weight's scale settles too.
  QuantizedTensor get(const Tensor& weight, const Quantizer& quantizer, DType dtype,
                      const CastRequest& request);

 private:
  struct Entry {
    std::weak_ptr<QuantizerState> quantizer;  // empty: a conversion to `dtype`
    DType dtype = DType::f32;
    int flatten_axis = -1;
    std::uint64_t version = 0;
    Tensor scale;  // delayed scaling's
    Tensor amax;   // undefined where no tape was there to note it
    QuantizedTensor cast;
  };

  std::mutex mutex_;
  std::vector<Entry> entries_;
};

/// The operand that a matmul in `dtype` makes of a kernel.
QuantizedTensor cast_kernel(const Variable& kernel, const Quantizer& quantizer, DType dtype,
                            const CastRequest& request);

}  // namespace tape8
