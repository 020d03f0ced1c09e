#pragma once

#include <functional>

#include <tape8/core/export.hpp>
#include <tape8/core/rng.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {

/// Makes a parameter's first f32 values. Kernels are [fan_in, fan_out...].
using Initializer = std::function<Tensor(const Shape& shape, Rng& rng)>;

TAPE8_API Initializer constant(float value);
TAPE8_API Initializer normal(float stddev);
/// Normal with variance 1 / fan_in (LeCun et al., "Efficient BackProp", 1998).
TAPE8_API Initializer lecun_normal();
/// Normal with variance 2 / fan_in (He et al., "Delving deep into rectifiers", 2015).
TAPE8_API Initializer he_normal();
/// Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).
TAPE8_API Initializer glorot_uniform();

}  // namespace tape8
