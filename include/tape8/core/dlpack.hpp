#pragma once

#include <tape8/core/export.hpp>
#include <tape8/core/tensor.hpp>

/// From <dlpack/dlpack.h>, which need not be installed; any version of it describes this struct
/// alike.
struct DLManagedTensor;

namespace tape8 {

/// Takes over a DLPack tensor (https://dmlc.github.io/dlpack): the result is a view of its memory,
/// with its sizes and strides, and calls its deleter when the last handle goes. Types: float of 64,
/// 32 and 16 bits, bfloat16, int of 64 and 32 bits, uint8, bool, and the float8 types e4m3fn, e5m2
/// and e8m0fnu.
///
/// Throws OptionError for null, another device than the CPU, lanes, negative strides or memory that
/// is not aligned; DTypeError for another type. The tensor then still belongs to the caller.
TAPE8_API Tensor from_dlpack(DLManagedTensor* tensor);

/// Hands out a view of a tensor's memory, which lives until the consumer calls the result's
/// deleter. Throws DTypeError for e2m1, whose packing DLPack leaves open,
/// UnsupportedError for memory of another device than the CPU.
TAPE8_API DLManagedTensor* to_dlpack(const Tensor& tensor);

}  // namespace tape8
