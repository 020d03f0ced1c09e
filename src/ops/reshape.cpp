#include <tape8/autograd/tape.hpp>
#include <tape8/ops/reshape.hpp>

#include "core/fail.hpp"
#include "ops/checks.hpp"

namespace tape8 {
namespace {

struct Saved {
  Shape x_shape;

  void visit(SavedVisitor&) const {}
};

}  // namespace

Variable reshape(const Variable& x, const Shape& shape) {
  check_given("reshape", "x", x);
  return record("reshape", {x}, x.tensor().reshape(shape), Saved{x.shape()},
                [](const Saved& saved, Gradients& gradients) {
                  if (gradients.needs(0))
                    gradients.set(0, gradients.output().reshape(saved.x_shape));
                });
}

}  // namespace tape8
