#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/reduce.hpp>

#include "backend/backend.hpp"
#include "ops/checks.hpp"

namespace tape8 {
namespace {

/// A reduction of the middle of [outer, reduced, inner].
struct Saved {
  Shape x_shape;
  std::int64_t outer = 1, reduced = 1, inner = 1;
  double factor = 1.0;

  void visit(SavedVisitor&) const {}
};

Variable reduce(const char* op, const Variable& x, const Shape& y_shape, const Saved& saved) {
  const Tensor values = x.tensor().contiguous();
  Tensor y = Tensor::empty(y_shape, x.dtype(), values.device());
  backend(values.device())
      .reduce({.outer = saved.outer,
               .reduced = saved.reduced,
               .inner = saved.inner,
               .x = input_of(values),
               .factor = saved.factor,
               .y = output_to(y)});
  return record(op, {x}, std::move(y), saved, [](const Saved& kept, Gradients& gradients) {
    if (!gradients.needs(0)) return;
    const Tensor& dy = gradients.output();
    Tensor dx = Tensor::empty(kept.x_shape, dy.dtype(), dy.device());
    backend(dy.device())
        .broadcast({.outer = kept.outer,
                    .reduced = kept.reduced,
                    .inner = kept.inner,
                    .x = input_of(dy),
                    .factor = kept.factor,
                    .y = output_to(dx)});
    gradients.set(0, std::move(dx));
  });
}

double mean_factor(std::int64_t count) {
  return count > 0 ? 1.0 / static_cast<double>(count) : 0.0;
}

Variable reduce_all(const char* op, const Variable& x, bool is_mean) {
  check_given(op, "x", x);
  check_compute_dtype(op, "x", x.dtype());
  const std::int64_t count = x.shape().numel();
  return reduce(
      op, x, {},
      {.x_shape = x.shape(), .reduced = count, .factor = is_mean ? mean_factor(count) : 1.0});
}

Variable reduce_axis(const char* op, const Variable& x, int axis, bool is_mean) {
  check_given(op, "x", x);
  check_compute_dtype(op, "x", x.dtype());
  const int index = checked_axis(op, x.shape(), axis);
  const Shape before = x.shape().axes(0, index);
  const Shape after = x.shape().axes(index + 1, x.shape().rank());
  const std::int64_t count = x.shape()[index];
  return reduce(op, x, before.joined(after),
                {.x_shape = x.shape(),
                 .outer = before.numel(),
                 .reduced = count,
                 .inner = after.numel(),
                 .factor = is_mean ? mean_factor(count) : 1.0});
}

}  // namespace

Variable sum(const Variable& x) { return reduce_all("sum", x, false); }
Variable mean(const Variable& x) { return reduce_all("mean", x, true); }
Variable sum(const Variable& x, int axis) { return reduce_axis("sum", x, axis, false); }
Variable mean(const Variable& x, int axis) { return reduce_axis("mean", x, axis, true); }

}  // namespace tape8
