#pragma once

#include <cstdint>
#include <vector>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/activation_type.hpp>
#include <tape8/core/device.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/norm_type.hpp>
#include <tape8/core/rng.hpp>
#include <tape8/nn/dense.hpp>
#include <tape8/nn/init.hpp>
#include <tape8/nn/layernorm_dense.hpp>
#include <tape8/ops/layernorm_mlp.hpp>
#include <tape8/quantize/recipe.hpp>

namespace tape8 {

struct LayerNormMLPConfig {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  ActivationType activation_type = gelu;
  ActivationParams activation_params = {};
  NormType norm_type = NormType::layernorm;
  bool zero_centered_gamma = false;
  float epsilon = 1e-6F;
  bool use_bias = true;
  bool remake_casts = false;  ///< less memory for more work in backward; see layernorm_mlp()
  Recipe recipe = HighPrecision{};
  DType dtype = DType::f32;  ///< of the parameters
  Device device = {};        ///< where they lie, and x has to
  Initializer kernel_init = lecun_normal();
  Initializer bias_init = constant(0.0F);
};

/// The MLP half of a transformer layer, without the residual:
/// x [..., hidden] -> norm -> dense [..., n * intermediate] -> activation -> dense [..., hidden],
/// where n is the number of parts of the activation; one node, see layernorm_mlp().
/// Copies share the parameters.
class TAPE8_API LayerNormMLP {
 public:
  /// Throws OptionError unless both sizes are at least 1.
  LayerNormMLP(const LayerNormMLPConfig& config, Rng& rng);

  Variable operator()(const Variable& x) const;

  std::vector<Variable> parameters() const;
  const LayerNormDense& dense_1() const { return dense_1_; }
  const Dense& dense_2() const { return dense_2_; }

 private:
  LayerNormDense dense_1_;
  Dense dense_2_;
  LayerNormMLPOptions options_;
};

}  // namespace tape8
