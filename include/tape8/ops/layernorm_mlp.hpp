#pragma once

#include <array>
#include <string>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/activation_type.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/norm_type.hpp>
#include <tape8/ops/axes.hpp>
#include <tape8/quantize/quantizer.hpp>

namespace tape8 {

struct LayerNormMLPOptions {
  NormType norm_type = NormType::layernorm;
  bool zero_centered_gamma = false;  ///< gamma + 1 is used, for both norms
  float epsilon = 1e-6F;             ///< at least 0
  bool transpose_batch_sequence = false;
  Axes norm_input_axes = {};
  Axes dot_1_input_axes = {};
  Axes dot_2_input_axes = {};
  Axes kernel_1_axes = {};
  Axes kernel_2_axes = {};
  std::string ffn1_ckpt_name = "ffn1";  ///< of the activation's input, for recomputation policies
  std::string ffn2_ckpt_name = "ffn2";  ///< of the result
  ActivationType activation_type = gelu;
  ActivationParams activation_params = {};
  std::array<QuantizerSet, 2> quantizer_sets = {};  ///< of each matmul; {}: high precision
  /// Backward casts the norm's and the activation's output once more from x, the activation's input
  /// and the scales of the forward pass, instead of keeping the casts: less memory, the same bits.
  bool remake_casts = false;
};

/// The MLP half of a transformer layer without its residual, as one node:
/// y = act(norm(x) * kernel_1 + bias_1) * kernel_2 + bias_2. Differentiable in x, gamma, beta, both
/// kernels and both biases.
///
/// x: [batch..., hidden_in] in f64, f32, bf16 or f16 (f64 without quantizers); gamma, beta:
/// [hidden_in]; kernel_1: [hidden_in, n * intermediate] or [hidden_in, n, intermediate], where n =
/// activation_type.count() and part 0, the activated one, comes first; bias_1: kernel_1's shape
/// without hidden_in; kernel_2: [intermediate, hidden_out...]; bias_2: [hidden_out...]; y:
/// [batch..., hidden_out...] in x's dtype. beta and the biases may be none.
///
/// Norm and activation are cast as they are computed, from f32, and in backward the activation's
/// gradient is multiplied, summed to bias_1's gradient and cast in one pass. Each matmul's dgrad
/// quantizer casts the gradient of that matmul's result. Backward keeps x, mu, rsigma, the
/// activation's input in x's dtype, and both matmuls' operands as they were used: in FP8 where they
/// were quantized (none of these two casts with remake_casts). The rest is as in
/// layernorm_dense() and activation().
TAPE8_API Variable layernorm_mlp(const Variable& x, const Variable& gamma, const Variable& beta,
                                 const std::array<Variable, 2>& kernels,
                                 const std::array<Variable, 2>& biases,
                                 const LayerNormMLPOptions& options = {});

}  // namespace tape8
