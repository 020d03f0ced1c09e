#pragma once

#include <optional>

#include <tape8/quantize/quantized_tensor.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "backend/backend.hpp"
#include "quantize/block_cast.hpp"
#include "quantize/cast_request.hpp"
#include "quantize/quantizer_state.hpp"

namespace tape8 {

struct CastTensor {
  QuantizedTensor tensor;
  Tensor amax;  // under delayed scaling, where casts are noted: f32 of one element
};

/// `values` cast by `quantizer` or, without one, converted to `dtype` (shared when they have it
/// already). Notes the amax where this thread's casts are noted, unless there are no elements.
/// With `dbias` the sum over the rows of values, of request's columns, is written there.
CastTensor cast_tensor(const Tensor& values, const Quantizer& quantizer, DType dtype,
                       const CastRequest& request = {}, Stat* dbias = nullptr);

/// Whether this thread's casts by a quantizer are noted: under delayed scaling, with a tape.
bool notes_casts(const Quantizer& quantizer);
/// Notes the amax of such a cast.
void note_cast(const Quantizer& quantizer, const Tensor& amax);

/// How a cast was made: with it the cast can be made again, the same bytes, and nothing is noted.
/// Not of stochastic rounding.
struct CastReplay {
  Quantizer quantizer;
  CastRequest request;
  Scales scales;  // delayed scaling's
};

/// Where a kernel writes values that a quantizer is to cast, and what becomes of them. Delayed and
/// block scaling cast them as they are computed; current scaling and NVFP4, whose scale depends on
/// all of them, need a second pass. Without a quantizer they are stored as `dtype`.
///
///     CastTarget target(quantizer, shape, dtype, device);
///     backend.norm({..., .y = target.output()});
///     QuantizedTensor z = target.finish();
class CastTarget {
 public:
  CastTarget(const Quantizer& quantizer, const Shape& shape, DType dtype, const Device& device,
             const CastRequest& request = {});
  CastTarget(const CastReplay& replay, const Shape& shape, DType dtype, const Device& device);
  CastTarget(const CastTarget&) = delete;
  CastTarget& operator=(const CastTarget&) = delete;

  /// Points into this object.
  Output output();
  /// After the kernel has run: the tensor. Notes the amax as cast_tensor() does.
  QuantizedTensor finish();
  /// As CastTensor has it.
  const Tensor& amax() const { return amax_; }
  const CastReplay& replay() const { return replay_; }

 private:
  bool delayed() const { return replay_.scales.scale_inv.defined(); }

  CastReplay replay_;
  QuantizedPart part_;  // what the kernel writes, unless it is blocks_
  std::optional<BlockCast> blocks_;
  Tensor amax_;  // undefined: the cast is not noted
};

/// `tensor` in `dtype`, rounded once by the backend's cast, which Tensor::to() is slow beside;
/// itself where it has that type or is none.
Tensor converted(const Tensor& tensor, DType dtype);

}  // namespace tape8
