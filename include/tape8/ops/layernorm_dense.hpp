#pragma once

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/norm_type.hpp>
#include <tape8/ops/axes.hpp>
#include <tape8/quantize/quantizer.hpp>

namespace tape8 {

struct LayerNormDenseOptions {
  NormType norm_type = NormType::layernorm;
  bool zero_centered_gamma = false;  ///< gamma + 1 is used, for both norms
  float epsilon = 1e-6F;             ///< at least 0
  bool transpose_batch_sequence = false;
  Axes layernorm_input_axes = {};
  Axes dot_input_axes = {};
  Axes kernel_axes = {};
  QuantizerSet quantizer_set = {};  ///< {}: high precision throughout
};

/// y = norm(x) * kernel + bias, the norm's output cast as it is computed. Differentiable in x,
/// kernel, gamma, beta and bias.
///
/// layernorm: (x - mu) * rsigma * gamma + beta with rsigma = 1 / sqrt(mean((x - mu)^2) + epsilon);
/// rmsnorm: x * rsigma * gamma with rsigma = 1 / sqrt(mean(x^2) + epsilon); statistics in f32.
///
/// x: [batch..., hidden_in] in f64, f32, bf16 or f16 (f64 without quantizers); kernel: [hidden_in,
/// hidden_out...]; gamma, beta: [hidden_in]; bias: [hidden_out...]; y: [batch..., hidden_out...] in
/// x's dtype. beta and bias may be none (zeros); a beta with rmsnorm is an OptionError. Backward
/// keeps x, mu, rsigma, and the norm's output and the kernel as they were used: in FP8 where they
/// were quantized. The rest is as in dense().
TAPE8_API Variable layernorm_dense(const Variable& x, const Variable& kernel, const Variable& gamma,
                                   const Variable& beta = {}, const Variable& bias = {},
                                   const LayerNormDenseOptions& options = {});

}  // namespace tape8
