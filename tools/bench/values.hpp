#pragma once

#include <span>

#include <tape8/tape8.hpp>

namespace tape8::tools::bench {

/// Normal numbers that repeat after some rows: made in no time, whatever the size.
Tensor make_values(const Shape& shape, DType dtype, float deviation = 1.0F);
/// An initializer like lecun_normal(), of such numbers.
Tensor make_kernel(const Shape& shape, Rng& rng);

/// As an optimizer leaves them: casts of these weights are made anew.
void touch(std::span<const Variable> weights);
void zero_grads(std::span<Variable> leaves);

}  // namespace tape8::tools::bench
