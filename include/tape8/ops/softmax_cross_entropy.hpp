#pragma once

#include <cstdint>
#include <optional>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>

namespace tape8 {

struct SoftmaxCrossEntropyOptions {
  /// s in [0, 1): the target is 1 - s for the label and s / classes for every class, the label
  /// included.
  float label_smoothing = 0.0F;
  /// Rows with this label count neither in the loss nor in the mean.
  std::optional<std::int64_t> ignore_index = {};
};

/// The mean over rows of -log softmax(logits)[label], an f32 scalar (f64 for f64 logits); 0 when no
/// row counts. Differentiable in logits. Backward keeps logits, labels and one f32 a row.
///
/// logits: [batch..., classes] in f64, f32, bf16 or f16; labels: [batch...] in i32, i64 or u8, each
/// in [0, classes) or ignore_index. Throws ShapeError, DTypeError; OptionError for any other label.
TAPE8_API Variable softmax_cross_entropy(const Variable& logits, const Tensor& labels,
                                         const SoftmaxCrossEntropyOptions& options = {});

}  // namespace tape8
