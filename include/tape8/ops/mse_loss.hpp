#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

/// The mean of (prediction - target)^2, a scalar in f32 (f64 for f64); 0 for no elements.
/// Differentiable in both. They have one shape and dtype: f64, f32, bf16 or f16. Backward keeps
/// both. Throws ShapeError, DTypeError.
TAPE8_API Variable mse_loss(const Variable& prediction, const Variable& target);

}  // namespace tape8
