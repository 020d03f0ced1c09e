#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

/// The mean over rows of -log softmax(logits)[label], an f32 scalar; 0 for no rows. Differentiable
/// in logits. Backward keeps logits, labels and one f32 a row.
///
/// logits: [batch..., classes] in f32 or bf16; labels: [batch...] in i32, i64 or u8, each in [0,
/// classes). Throws ShapeError, DTypeError; OptionError for a label outside the classes.
TAPE8_API Variable softmax_cross_entropy(const Variable& logits, const Tensor& labels);

}  // namespace tape8
