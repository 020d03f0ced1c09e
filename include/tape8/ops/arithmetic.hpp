#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

// Elementwise, on operands of one shape and dtype (f64, f32, bf16 or f16); computed in f32 (f64),
// the result in the operands' dtype. Throw ShapeError, DTypeError.

/// a + b. Keeps nothing for backward.
TAPE8_API Variable add(const Variable& a, const Variable& b);
/// a - b. Keeps nothing for backward.
TAPE8_API Variable sub(const Variable& a, const Variable& b);
/// a * b. Keeps both.
TAPE8_API Variable mul(const Variable& a, const Variable& b);
/// x * factor. Keeps nothing for backward. Throws OptionError unless the factor is finite
/// in the type that it is computed in.
TAPE8_API Variable scale(const Variable& x, double factor);

inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
inline Variable operator*(const Variable& x, double factor) { return scale(x, factor); }
inline Variable operator*(double factor, const Variable& x) { return scale(x, factor); }

}  // namespace tape8
