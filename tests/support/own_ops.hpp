#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <tape8/autograd/tape.hpp>

#include "support/values.hpp"

namespace tape8::test {

// Ops recorded as a user records them, on f32 tensors, so that the tape is tested without the
// library's own kernels.

template <class Function>
Tensor map(const Tensor& a, const Tensor& b, Function function) {
  const auto x = a.to_vector<float>();
  const auto y = b.to_vector<float>();
  std::vector<float> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) result[i] = function(x[i], y[i]);
  return Tensor::from(result, a.shape());
}

struct SavedPair {
  Tensor a, b;
  void visit(SavedVisitor& visitor) const {
    visitor("a", a);
    visitor("b", b);
  }
};

/// a * b, element by element.
inline Variable multiply(const Variable& a, const Variable& b) {
  const auto product = [](float x, float y) { return x * y; };
  return record("multiply", {a, b}, map(a.tensor(), b.tensor(), product),
                SavedPair{a.tensor(), b.tensor()},
                [product](const SavedPair& saved, Gradients& gradients) {
                  const Tensor& dy = gradients.output();
                  if (gradients.needs(0)) gradients.set(0, map(dy, saved.b, product));
                  if (gradients.needs(1)) gradients.set(1, map(dy, saved.a, product));
                });
}

/// factor * x; keeps nothing.
inline Variable scaled(const Variable& x, float factor) {
  const auto times = [factor](const Tensor& t) {
    return map(t, t, [factor](float v, float) { return factor * v; });
  };
  return record("scaled", {x}, times(x.tensor()), NothingSaved{},
                [times](const NothingSaved&, Gradients& gradients) {
                  if (gradients.needs(0)) gradients.set(0, times(gradients.output()));
                });
}

/// The sum of all elements, a scalar.
inline Variable sum(const Variable& x) {
  float total = 0.0F;
  for (const float value : x.tensor().to_vector<float>()) total += value;
  return record("sum", {x}, Tensor::from({total}, {}), NothingSaved{},
                [shape = x.shape()](const NothingSaved&, Gradients& gradients) {
                  if (!gradients.needs(0)) return;
                  gradients.set(0, Tensor::full(shape, gradients.output().item<double>()));
                });
}

/// x, with a backward that throws.
inline Variable failing(const Variable& x) {
  return record("failing", {x}, x.tensor().clone(), NothingSaved{},
                [](const NothingSaved&, Gradients&) { throw std::runtime_error("on purpose"); });
}

}  // namespace tape8::test
