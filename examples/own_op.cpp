// An op of one's own, recorded on the tape as tape8's own ops are, and its gradient checked against
// central differences.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <tape8/tape8.hpp>
namespace t8 = tape8;

enum Input : int { kX, kBeta };

/// What the op's gradient needs; the tape counts it and refuses to go on when it was changed.
struct SavedSwish {
  t8::Tensor x, beta;

  void visit(t8::SavedVisitor& visitor) const {
    visitor("x", x);
    visitor("beta", beta);
  }
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

void swish_backward(const SavedSwish& saved, t8::Gradients& gradients) {
  const t8::Tensor x = saved.x.contiguous();
  const auto xs = x.span<double>();
  const auto dys = gradients.output().span<double>();
  const double beta = saved.beta.item<double>();

  if (gradients.needs(kX)) {
    t8::Tensor dx = t8::Tensor::empty(x.shape(), t8::DType::f64);
    const auto dxs = dx.mutable_span<double>();
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const double s = sigmoid(beta * xs[i]);
      dxs[i] = dys[i] * (s + beta * xs[i] * s * (1.0 - s));
    }
    gradients.set(kX, dx);
  }
  if (gradients.needs(kBeta)) {
    double dbeta = 0.0;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const double s = sigmoid(beta * xs[i]);
      dbeta += dys[i] * xs[i] * xs[i] * s * (1.0 - s);
    }
    gradients.set(kBeta, t8::Tensor::full(saved.beta.shape(), dbeta, t8::DType::f64));
  }
}

/// y = x sigmoid(beta x), where beta is learnt too. x: any shape, beta: a scalar, both f64.
t8::Variable swish(const t8::Variable& x, const t8::Variable& beta) {
  const double factor = beta.tensor().item<double>();
  t8::Tensor y = x.tensor().clone();
  for (double& value : y.mutable_span<double>()) value *= sigmoid(factor * value);
  return t8::record("swish", {x, beta}, y, SavedSwish{x.tensor(), beta.tensor()}, swish_backward);
}

int main() {
  t8::Rng rng{1};
  const t8::Variable x = t8::parameter(rng.normal({4, 8}, 0.0F, 2.0F, t8::DType::f64));
  const t8::Variable beta = t8::parameter(t8::Tensor::full({}, 1.25, t8::DType::f64));
  const t8::Variable weights = rng.normal({4, 8}, 0.0F, 1.0F, t8::DType::f64);
  const auto loss = [&] { return t8::sum(swish(x, beta) * weights); };

  t8::Tape tape;
  tape.backward(loss());

  // Frozen, the parameters no longer lead to a gradient: what follows is not recorded.
  double largest_error = 0.0;
  for (t8::Variable leaf : {x, beta}) {
    leaf.set_requires_grad(false);
    t8::Tensor values = leaf.tensor();  // a handle to the parameter's memory
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const auto loss_at = [&](double step) {
        values.mutable_span<double>()[i] += step;
        const double result = loss().tensor().item<double>();
        values.mutable_span<double>()[i] -= step;
        return result;
      };
      constexpr double kStep = 1e-5;
      const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2.0 * kStep);
      largest_error = std::max(largest_error, std::abs(difference - leaf.grad().span<double>()[i]));
    }
  }
  std::printf("swish: largest difference from central differences: %.1e\n", largest_error);
  return largest_error < 1e-8 ? 0 : 1;
}
