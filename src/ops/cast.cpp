#include "quantize/cast.hpp"

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/cast.hpp>

#include "ops/checks.hpp"

namespace tape8 {
namespace {

struct Saved {
  DType x_dtype;

  void visit(SavedVisitor&) const {}
};

Tensor convert(const Tensor& values, DType dtype) {
  return cast_tensor(values, {}, dtype).tensor.rowwise().data;
}

}  // namespace

Variable cast(const Variable& x, DType dtype) {
  check_given("cast", "x", x);
  check_compute_dtype("cast", "x", x.dtype());
  check_compute_dtype("cast", "dtype", dtype);
  return record("cast", {x}, convert(x.tensor(), dtype), Saved{x.dtype()},
                [](const Saved& saved, Gradients& gradients) {
                  if (gradients.needs(0)) {
                    gradients.set(0, convert(gradients.output(), saved.x_dtype));
                  }
                });
}

}  // namespace tape8
