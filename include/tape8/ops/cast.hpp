#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

/// x in another of f64, f32, bf16 and f16, each value rounded once. Differentiable: the gradient is
/// cast back. Keeps nothing. Throws DTypeError.
TAPE8_API Variable cast(const Variable& x, DType dtype);

}  // namespace tape8
