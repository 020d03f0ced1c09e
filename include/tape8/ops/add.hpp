#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

/// a + b, of one shape and dtype (f32 or bf16); computed in f32. Differentiable in both; keeps
/// nothing.
TAPE8_API Variable add(const Variable& a, const Variable& b);
inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }

}  // namespace tape8
