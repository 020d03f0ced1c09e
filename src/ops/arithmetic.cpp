#include <cmath>
#include <limits>
#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/arithmetic.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "ops/checks.hpp"

namespace tape8 {
namespace {

enum Argument : int { kA, kB };

Tensor run_binary(BinaryOp op, const Tensor& a, const Tensor& b) {
  Tensor y = Tensor::empty(a.shape(), a.dtype(), a.device());
  backend(y.device())
      .binary(
          {.op = op, .count = y.numel(), .a = input_of(a), .b = input_of(b), .y = output_to(y)});
  return y;
}

Tensor run_scale(const Tensor& x, double factor) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend(y.device())
      .scale({.count = y.numel(), .x = input_of(x), .factor = factor, .y = output_to(y)});
  return y;
}

/// The op on checked operands.
Tensor forward(const char* op, BinaryOp kind, const Variable& a, const Variable& b) {
  check_given(op, "a", a);
  check_given(op, "b", b);
  check_device(op, "b", b.tensor(), a.tensor().device());
  check_compute_dtype(op, "a", a.dtype());
  check_shape(op, "b", b.shape(), "of a", a.shape());
  check_dtype(op, "b", b.dtype(), "of a", a.dtype());
  return run_binary(kind, a.tensor().contiguous(), b.tensor().contiguous());
}

struct SavedProduct {
  Tensor a, b;

  void visit(SavedVisitor& visitor) const {
    visitor("a", a);
    visitor("b", b);
  }
};

struct SavedFactor {
  double factor;

  void visit(SavedVisitor&) const {}
};

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  return record("add", {a, b}, forward("add", BinaryOp::add, a, b), NothingSaved{},
                [](const NothingSaved&, Gradients& gradients) {
                  if (gradients.needs(kA)) gradients.set(kA, gradients.output());
                  if (gradients.needs(kB)) gradients.set(kB, gradients.output());
                });
}

Variable sub(const Variable& a, const Variable& b) {
  return record("sub", {a, b}, forward("sub", BinaryOp::sub, a, b), NothingSaved{},
                [](const NothingSaved&, Gradients& gradients) {
                  if (gradients.needs(kA)) gradients.set(kA, gradients.output());
                  if (gradients.needs(kB)) gradients.set(kB, run_scale(gradients.output(), -1.0));
                });
}

Variable mul(const Variable& a, const Variable& b) {
  Tensor y = forward("mul", BinaryOp::mul, a, b);
  return record("mul", {a, b}, std::move(y),
                SavedProduct{a.tensor().contiguous(), b.tensor().contiguous()},
                [](const SavedProduct& saved, Gradients& gradients) {
                  const Tensor& dy = gradients.output();
                  if (gradients.needs(kA))
                    gradients.set(kA, run_binary(BinaryOp::mul, dy, saved.b));
                  if (gradients.needs(kB))
                    gradients.set(kB, run_binary(BinaryOp::mul, dy, saved.a));
                });
}

Variable scale(const Variable& x, double factor) {
  check_given("scale", "x", x);
  check_compute_dtype("scale", "x", x.dtype());
  const bool is_finite = x.dtype() == DType::f64
                             ? std::isfinite(factor)
                             : std::fabs(factor) <= std::numeric_limits<float>::max();
  if (!is_finite) {
    fail<OptionError>("scale: factor must be finite in {}: got {}",
                      to_string(stat_dtype(x.dtype())), factor);
  }
  return record("scale", {x}, run_scale(x.tensor().contiguous(), factor), SavedFactor{factor},
                [](const SavedFactor& saved, Gradients& gradients) {
                  if (gradients.needs(0)) {
                    gradients.set(0, run_scale(gradients.output(), saved.factor));
                  }
                });
}

}  // namespace tape8
