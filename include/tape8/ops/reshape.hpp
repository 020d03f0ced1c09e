#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/shape.hpp>

namespace tape8 {

/// x's elements in row-major order under another shape of as many; a view. Differentiable in x;
/// keeps nothing.
TAPE8_API Variable reshape(const Variable& x, const Shape& shape);

}  // namespace tape8
