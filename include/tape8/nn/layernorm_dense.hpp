#pragma once

#include <cstdint>
#include <vector>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/device.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/norm_type.hpp>
#include <tape8/core/rng.hpp>
#include <tape8/nn/init.hpp>
#include <tape8/quantize/quantizer.hpp>

namespace tape8 {

struct LayerNormDenseConfig {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  NormType norm_type = NormType::layernorm;
  bool zero_centered_gamma = false;
  float epsilon = 1e-6F;
  bool use_bias = true;
  Recipe recipe = HighPrecision{};
  DType dtype = DType::f32;  ///< of the parameters
  Device device = {};        ///< where they lie, and x has to
  Initializer kernel_init = lecun_normal();
  Initializer bias_init = constant(0.0F);
};

/// x [..., in_features] -> norm(x) * kernel + bias [..., out_features]; see layernorm_dense().
/// gamma starts as the identity, beta (layernorm only) as zeros.
/// Copies share the parameters.
class TAPE8_API LayerNormDense {
 public:
  /// Throws OptionError unless both sizes are at least 1.
  LayerNormDense(const LayerNormDenseConfig& config, Rng& rng);

  Variable operator()(const Variable& x) const;

  std::vector<Variable> parameters() const;
  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }  ///< none without use_bias
  const Variable& gamma() const { return gamma_; }
  const Variable& beta() const { return beta_; }  ///< none for rmsnorm
  const QuantizerSet& quantizer_set() const { return quantizer_set_; }

 private:
  NormType norm_type_;
  bool zero_centered_gamma_;
  float epsilon_;
  Variable kernel_, bias_, gamma_, beta_;
  QuantizerSet quantizer_set_;
};

}  // namespace tape8
