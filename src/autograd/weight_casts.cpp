#include "autograd/weight_casts.hpp"

#include <algorithm>

#include "autograd/variable_state.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

bool serves(const QuantizedTensor& cast, const Usages& usages) {
  return (!usages.rowwise || cast.has(Usage::rowwise)) &&
         (!usages.columnwise || cast.has(Usage::columnwise));
}

}  // namespace

QuantizedTensor WeightCasts::get(const Tensor& weight, const Quantizer& quantizer, DType dtype,
                                 const CastRequest& request) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) {
    return entry.cast.is_quantized() && entry.quantizer.expired();
  });
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.quantizer.lock() == quantizer.state() && entry.dtype == dtype &&
           entry.flatten_axis == request.flatten_axis;
  });
  const bool delayed = quantizer && std::holds_alternative<DelayedScaling>(quantizer.recipe());
  const Tensor scale = delayed ? quantizer.state()->scales(weight.device()).scale : Tensor{};
  const bool notes = notes_casts(quantizer) && weight.numel() > 0;
  if (found != entries_.end() && found->version == weight.version() &&
      found->scale.shares_storage(scale) && serves(found->cast, request.usages) &&
      (!notes || found->amax.defined())) {
    if (notes) note_cast(quantizer, found->amax);
    return found->cast;
  }
  CastTensor made = cast_tensor(weight, quantizer, dtype, request);
  Entry entry{quantizer.state(), dtype,      request.flatten_axis, weight.version(), scale,
              made.amax,         made.tensor};
  if (found != entries_.end()) {
    *found = std::move(entry);
  } else {
    entries_.push_back(std::move(entry));
  }
  return made.tensor;
}

QuantizedTensor cast_kernel(const Variable& kernel, const Quantizer& quantizer, DType dtype,
                            const CastRequest& request) {
  const Tensor& tensor = kernel.tensor();
  if (!quantizer && tensor.dtype() == dtype) return QuantizedTensor(tensor.contiguous());
  WeightCasts* casts = kernel.state()->weight_casts.get();
  return casts != nullptr ? casts->get(tensor, quantizer, dtype, request)
                          : cast_tensor(tensor, quantizer, dtype, request).tensor;
}

}  // namespace tape8
