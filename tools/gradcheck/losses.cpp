#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "gradcheck/ops.hpp"

namespace tape8::tools::gradcheck {
namespace {

constexpr std::array kDTypes{DType::f64, DType::f32, DType::bf16, DType::f16};
constexpr std::int64_t kIgnored = -7;

/// A label a row; every third one is ignored if any are.
Tensor labels_of(const Shape& logits, bool ignored, Random& random) {
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < logits.numel() / logits[-1]; ++row) {
    labels.push_back(ignored && row % 3 == 1 ? kIgnored : random.below(logits[-1]));
  }
  return Tensor::from(labels, logits.axes(0, logits.rank() - 1));
}

void add_softmax_cross_entropy(Subjects& subjects, const Shape& shape, float smoothing,
                               bool ignored, bool large) {
  SoftmaxCrossEntropyOptions options{.label_smoothing = smoothing};
  if (ignored) options.ignore_index = kIgnored;
  for (const DType dtype : kDTypes) {
    subjects.push_back(
        {.op = "softmax_cross_entropy",
         .dtype = dtype,
         .variant = fmt::format("smoothing_{}{}", smoothing, ignored ? "_ignored" : ""),
         .shape = sizes(shape),
         .differences = !large,
         .make = [=](Random& random) {
           return Program{
               .names = {"logits", "labels"},
               .inputs = {random.values(shape, dtype, 3.0), labels_of(shape, ignored, random)},
               .function = [options](std::span<const Variable> in) {
                 return softmax_cross_entropy(in[0], in[1].tensor(), options);
               }};
         }});
  }
}

void add_mse_loss(Subjects& subjects, const Shape& shape, bool large) {
  for (const DType dtype : kDTypes) {
    subjects.push_back(
        {.op = "mse_loss",
         .dtype = dtype,
         .shape = sizes(shape),
         .differences = !large,
         .make = [=](Random& random) {
           return Program{
               .names = {"prediction", "target"},
               .inputs = {random.values(shape, dtype), random.values(shape, dtype)},
               .function = [](std::span<const Variable> in) { return mse_loss(in[0], in[1]); }};
         }});
  }
}

}  // namespace

void add_losses(Subjects& subjects) {
  const std::array kShapes{Shape{19}, Shape{1, 10}, Shape{6, 17}, Shape{2, 3, 32}};
  const Shape kLargeShape{300, 257};
  for (const Shape& shape : kShapes) add_mse_loss(subjects, shape, false);
  add_mse_loss(subjects, kLargeShape, true);
  for (const float smoothing : {0.0F, 0.1F}) {
    for (const bool ignored : {false, true}) {
      for (const Shape& shape : kShapes) {
        add_softmax_cross_entropy(subjects, shape, smoothing, ignored, false);
      }
      add_softmax_cross_entropy(subjects, kLargeShape, smoothing, ignored, true);
    }
  }
}

}  // namespace tape8::tools::gradcheck
