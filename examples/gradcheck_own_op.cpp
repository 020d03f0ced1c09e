// Checks the gradients of an op of one's own: softplus, recorded on the tape as tape8's own ops
// are.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <tape8/tape8.hpp>
namespace t8 = tape8;

/// What the op's gradient needs.
struct SavedSoftplus {
  t8::Tensor x;
  void visit(t8::SavedVisitor& visitor) const { visitor("x", x); }
};

/// y = log(1 + exp(x)), any shape and float dtype; computed in double, so that it may be checked by
/// float64 differences.
t8::Variable softplus(const t8::Variable& x) {
  std::vector<double> y = x.tensor().to_vector<double>();
  for (double& value : y) value = std::max(value, 0.0) + std::log1p(std::exp(-std::abs(value)));
  return t8::record("softplus", {x}, t8::Tensor::from(y, x.shape(), x.dtype()),
                    SavedSoftplus{x.tensor()},
                    [](const SavedSoftplus& saved, t8::Gradients& gradients) {
                      const std::vector<double> at = saved.x.to_vector<double>();
                      std::vector<double> dx = gradients.output().to_vector<double>();
                      for (std::size_t i = 0; i < dx.size(); ++i) dx[i] /= 1.0 + std::exp(-at[i]);
                      gradients.set(0, t8::Tensor::from(dx, saved.x.shape(), saved.x.dtype()));
                    });
}

int main() {
  t8::Rng rng{1};
  bool passed = true;
  for (const t8::DType dtype : {t8::DType::f64, t8::DType::f32, t8::DType::bf16}) {
    const t8::GradcheckResult result = t8::gradcheck(
        [](std::span<const t8::Variable> in) { return t8::matmul(softplus(in[0]), in[1]); },
        {rng.normal({6, 8}, 0.0F, 2.0F, dtype), rng.normal({8, 3}, 0.0F, 1.0F, dtype)},
        {.names = {"x", "kernel"}});
    std::printf("softplus, %s: %s\n", t8::to_string(dtype).data(), result.message().c_str());
    passed = passed && result.passed();
  }
  return passed ? 0 : 1;
}
