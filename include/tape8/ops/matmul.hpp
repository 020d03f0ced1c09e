#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

/// a * b, in the dtype of both: f64, f32, bf16 or f16. Differentiable in both; keeps both.
///
/// a: [batch..., m, k]; b: [k, n], shared by the batch, or [batch..., k, n] with a's batch; y:
/// [batch..., m, n]. For biases, quantization and kernels of other types use dense(). Throws
/// ShapeError, DTypeError.
TAPE8_API Variable matmul(const Variable& a, const Variable& b);

}  // namespace tape8
