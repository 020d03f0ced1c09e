#pragma once

#include <tape8/core/tensor.hpp>

namespace tape8 {

/// Copies the elements of a contiguous tensor into another of the same shape and type, on whichever
/// devices they lie.
void copy_bytes(const Tensor& from, Tensor& to);

}  // namespace tape8
