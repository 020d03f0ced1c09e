#include <tape8/autograd/tape.hpp>
#include <tape8/ops/transpose.hpp>

#include "ops/checks.hpp"

namespace tape8 {
namespace {

struct Saved {
  int axis_a, axis_b;

  void visit(SavedVisitor&) const {}
};

}  // namespace

Variable transpose(const Variable& x, int axis_a, int axis_b) {
  check_given("transpose", "x", x);
  const Saved axes{checked_axis("transpose", x.shape(), axis_a),
                   checked_axis("transpose", x.shape(), axis_b)};
  return record("transpose", {x}, x.tensor().transpose(axes.axis_a, axes.axis_b), axes,
                [](const Saved& saved, Gradients& gradients) {
                  if (!gradients.needs(0)) return;
                  gradients.set(0, gradients.output().transpose(saved.axis_a, saved.axis_b));
                });
}

}  // namespace tape8
