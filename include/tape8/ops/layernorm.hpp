#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/norm_type.hpp>
#include <tape8/quantize/quantizer.hpp>

namespace tape8 {

struct LayerNormOptions {
  NormType norm_type = NormType::layernorm;
  bool zero_centered_gamma = false;  ///< gamma + 1 is used, for both norms
  float epsilon = 1e-6F;             ///< at least 0
  Quantizer quantizer = {};  ///< y is cast as it is computed and holds the dequantized values
};

/// The norm over x's last axis, as layernorm_dense() has it. Differentiable in x, gamma and beta;
/// the gradient passes through the cast unchanged. Backward keeps x, mu and rsigma.
///
/// x: [batch..., hidden] in f64, f32, bf16 or f16; gamma, beta: [hidden] in any of them; y: x's
/// shape and dtype. beta may be none (zeros); with rmsnorm it is an OptionError. Throws ShapeError,
/// DTypeError.
TAPE8_API Variable layernorm(const Variable& x, const Variable& gamma, const Variable& beta = {},
                             const LayerNormOptions& options = {});

}  // namespace tape8
