#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/activation_type.hpp>
#include <tape8/core/export.hpp>
#include <tape8/quantize/quantizer.hpp>

namespace tape8 {

/// y = act(x), for gated types the product of their parts over the last axis. Differentiable in x.
///
/// x: [..., n * H] in f64, f32, bf16 or f16 (f64 without a quantizer), where n =
/// activation_type.count(); part 0, the activated one, comes first. y: [..., H] in x's dtype. With
/// a quantizer y is cast as it is computed, in one pass, and holds the dequantized values; the
/// gradient passes through the cast unchanged. Backward keeps x.
///
/// Throws ShapeError when n does not divide the last axis, DTypeError, OptionError.
TAPE8_API Variable activation(const Variable& x, const ActivationType& activation_type,
                              const Quantizer& quantizer = {},
                              const ActivationParams& act_params = {});

}  // namespace tape8
