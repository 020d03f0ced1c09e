#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

// Sums over all elements or over one axis, which disappears; x is f64, f32, bf16 or f16. Added up
// in f64, in an order that depends on the sizes alone; the sum is rounded to f32 (not for f64) and
// then to x's dtype. Keep nothing for backward. A mean over nothing is 0. Throw ShapeError for an
// axis that x does not have, DTypeError.

/// [...] -> scalar.
TAPE8_API Variable sum(const Variable& x);
TAPE8_API Variable mean(const Variable& x);

/// [..., n, ...] -> [..., ...]; a negative axis counts from the end.
TAPE8_API Variable sum(const Variable& x, int axis);
TAPE8_API Variable mean(const Variable& x, int axis);

}  // namespace tape8
