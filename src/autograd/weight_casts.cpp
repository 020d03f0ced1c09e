#include "autograd/weight_casts.hpp"

#include <algorithm>

#include "autograd/variable_state.hpp"
#include "backend/backend.hpp"
#include "quantize/amax_notes.hpp"
#include "quantize/cast_target.hpp"

namespace tape8 {
namespace {

struct Cast {
  QuantizedTensor tensor;
  Amax amax;
};

/// Notes the amax where casts on this thread are noted.
Cast cast(const Tensor& weight, const Quantizer& quantizer, DType dtype) {
  if (!quantizer && weight.dtype() == dtype) return {QuantizedTensor(weight.contiguous()), {}};
  const Tensor values = weight.contiguous();
  CastTarget target(quantizer, values.shape(), dtype, values.device());
  backend(values.device())
      .cast({.rows = 1,
             .cols = values.numel(),
             .x = {.data = values.data(), .dtype = values.dtype()},
             .y = target.output()});
  QuantizedTensor made = target.finish();
  return {std::move(made), target.amax()};
}

}  // namespace

QuantizedTensor WeightCasts::get(const Tensor& weight, const Quantizer& quantizer, DType dtype) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.quantizer.lock() == quantizer.state() && entry.dtype == dtype;
  });
  const Scale scale = quantizer ? quantizer.scale() : Scale{};
  if (found != entries_.end() && found->version == weight.version() && found->scale == scale) {
    AmaxNotes* notes = AmaxNotes::current();
    if (quantizer && notes != nullptr && weight.numel() > 0) {
      notes->note(quantizer.state(), found->amax);
    }
    return found->cast;
  }
  Cast made = cast(weight, quantizer, dtype);
  Entry entry{quantizer.state(), dtype, weight.version(), scale, made.amax, made.tensor};
  if (found != entries_.end()) {
    *found = std::move(entry);
  } else {
    entries_.push_back(std::move(entry));
  }
  return made.tensor;
}

QuantizedTensor cast_kernel(const Variable& kernel, const Quantizer& quantizer, DType dtype) {
  const Tensor& tensor = kernel.tensor();
  if (!quantizer && tensor.dtype() == dtype) return QuantizedTensor(tensor.contiguous());
  WeightCasts* casts = kernel.state()->weight_casts.get();
  return casts != nullptr ? casts->get(tensor, quantizer, dtype)
                          : cast(tensor, quantizer, dtype).tensor;
}

}  // namespace tape8
