#pragma once

#include <initializer_list>
#include <vector>

#include <tape8/autograd/tape.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "support/own_ops.hpp"

namespace tape8::test {

/// One forward and backward pass in which `quantizer` casts a tensor of each amax.
inline void pass(const Quantizer& quantizer, std::initializer_list<float> amaxes,
                 const BackwardOptions& options = {}) {
  const Variable w = parameter(Tensor::full({1}, 1.0));
  Tape tape;
  for (const float amax : amaxes) (void)quantizer.quantize(Tensor::from({0.5F, -amax}, {2}));
  tape.backward(test::sum(w), options);
}

/// What a quantizer's state is, to compare.
struct QuantizerSnapshot {
  Scale scale;
  std::vector<float> amax_history;
  std::int64_t non_finite_passes = 0;

  friend bool operator==(const QuantizerSnapshot&, const QuantizerSnapshot&) = default;
};

inline QuantizerSnapshot snapshot(const Quantizer& quantizer) {
  return {quantizer.scale(), quantizer.amax_history(), quantizer.non_finite_passes()};
}

}  // namespace tape8::test
