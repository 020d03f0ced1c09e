#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

/// x with two axes exchanged; a view. Negative axes count from the end. Differentiable in x; keeps
/// nothing. Throws ShapeError for an axis that x does not have.
TAPE8_API Variable transpose(const Variable& x, int axis_a, int axis_b);

}  // namespace tape8
