#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

// Sums over all elements or over one axis, which disappears; added up in f32 or finer, in an order
// that depends on the sizes alone, and rounded once to x's dtype (f64, f32, bf16 or f16). Keep
// nothing for backward. A mean over nothing is 0. Throw ShapeError for an axis that x does not
// have, DTypeError.

/// [...] -> scalar.
TAPE8_API Variable sum(const Variable& x);
TAPE8_API Variable mean(const Variable& x);

/// [..., n, ...] -> [..., ...]; a negative axis counts from the end.
TAPE8_API Variable sum(const Variable& x, int axis);
TAPE8_API Variable mean(const Variable& x, int axis);

}  // namespace tape8
