#include <utility>
#include <vector>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/softmax_cross_entropy.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "ops/checks.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "softmax_cross_entropy";
enum Argument : int { kLogits };

struct Saved {
  Tensor logits, labels, logsumexp;
  std::int64_t rows = 0, classes = 0, counted = 0;
  float label_smoothing = 0.0F;

  void visit(SavedVisitor& visitor) const {
    visitor("logits", logits);
    visitor("labels", labels);
    visitor("logsumexp", logsumexp);
  }
};

struct Labels {
  Tensor values;  // i32; kIgnoredLabel where ignored
  std::int64_t counted = 0;
};

Labels checked_labels(const Tensor& labels, const Shape& batch, std::int64_t classes,
                      std::optional<std::int64_t> ignore_index) {
  if (!labels.defined()) fail<OptionError>("{}: labels must be given: got none", kOp);
  if (!is_integer(labels.dtype())) {
    fail<DTypeError>("{}: labels must be i32, i64 or u8: got {}", kOp, to_string(labels.dtype()));
  }
  check_shape(kOp, "labels", labels.shape(), "of logits' batch", batch);
  const std::vector<std::int64_t> values = labels.to_vector<std::int64_t>();
  Labels checked{.values = Tensor::empty(batch, DType::i32)};
  const std::span<std::int32_t> out = checked.values.mutable_span<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == ignore_index) {
      out[i] = kIgnoredLabel;
      continue;
    }
    if (values[i] < 0 || values[i] >= classes) {
      fail<OptionError>("{}: labels[{}] must lie within the {} classes: got {}", kOp, i, classes,
                        values[i]);
    }
    out[i] = static_cast<std::int32_t>(values[i]);
    ++checked.counted;
  }
  return checked;
}

}  // namespace

Variable softmax_cross_entropy(const Variable& logits, const Tensor& labels,
                               const SoftmaxCrossEntropyOptions& options) {
  check_given(kOp, "logits", logits);
  check_compute_dtype(kOp, "logits", logits.dtype());
  check_rank_at_least_1(kOp, "logits", logits.shape());
  const Shape batch = logits.shape().axes(0, logits.shape().rank() - 1);
  if (!(options.label_smoothing >= 0.0F && options.label_smoothing < 1.0F)) {
    fail<OptionError>("{}: label_smoothing must lie in [0, 1): got {}", kOp,
                      options.label_smoothing);
  }
  const DType stat = stat_dtype(logits.dtype());
  Labels checked = checked_labels(labels, batch, logits.shape()[-1], options.ignore_index);
  Saved saved{.logits = logits.tensor().contiguous(),
              .labels = checked.values.to(logits.tensor().device()),
              .rows = batch.numel(),
              .classes = logits.shape()[-1],
              .counted = checked.counted,
              .label_smoothing = options.label_smoothing};
  saved.logsumexp = Tensor::empty({saved.rows}, stat, saved.logits.device());
  Tensor loss = Tensor::empty({}, stat, saved.logits.device());
  backend(saved.logits.device())
      .softmax_cross_entropy({.rows = saved.rows,
                              .classes = saved.classes,
                              .label_smoothing = saved.label_smoothing,
                              .logits = input_of(saved.logits),
                              .labels = static_cast<const std::int32_t*>(saved.labels.data()),
                              .counted = saved.counted,
                              .loss = loss.mutable_data(),
                              .logsumexp = saved.logsumexp.mutable_data()});

  return record(kOp, {logits}, std::move(loss), std::move(saved),
                [](const Saved& kept, Gradients& gradients) {
                  if (!gradients.needs(kLogits)) return;
                  Tensor dlogits =
                      Tensor::empty(kept.logits.shape(), kept.logits.dtype(), kept.logits.device());
                  backend(kept.logits.device())
                      .softmax_cross_entropy_backward(
                          {.rows = kept.rows,
                           .classes = kept.classes,
                           .label_smoothing = kept.label_smoothing,
                           .logits = input_of(kept.logits),
                           .labels = static_cast<const std::int32_t*>(kept.labels.data()),
                           .counted = kept.counted,
                           .logsumexp = kept.logsumexp.data(),
                           .dloss = gradients.output().data(),
                           .dlogits = output_to(dlogits)});
                  gradients.set(kLogits, std::move(dlogits));
                });
}

}  // namespace tape8
