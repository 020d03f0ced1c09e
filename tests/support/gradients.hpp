#pragma once

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/reshape.hpp>

namespace tape8::test {

/// Adds `gradient` to the parameter's.
inline void give_gradient(const Variable& w, const Tensor& gradient) {
  Tape tape;
  tape.backward(reshape(w, w.shape()), gradient);
}

}  // namespace tape8::test
