#pragma once

#include "core/device_memory.hpp"

namespace tape8::cuda {

class Context;

/// Copies each element of `from`, rounded once, with the conversions of Tensor::copy_from; strides
/// of 0 repeat a value. An e2m1 `to` is contiguous.
void convert_strided(Context& context, const StridedView& to, const StridedView& from);

}  // namespace tape8::cuda
