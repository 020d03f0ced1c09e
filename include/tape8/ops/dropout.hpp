#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/rng.hpp>

namespace tape8 {

/// y = x / (1 - rate) with probability 1 - rate, else 0, each element by itself (Srivastava et al.,
/// JMLR 2014). Advances `rng` by one draw, which is all that backward keeps: the mask is made
/// again. Which elements are kept depends on the draw and their index alone.
///
/// x: any shape in f64, f32, bf16 or f16; y alike. Throws DTypeError; OptionError for a rate
/// outside [0, 1). For evaluation, do not call it.
TAPE8_API Variable dropout(const Variable& x, float rate, Rng& rng);

}  // namespace tape8
