#include <tape8/nn/layernorm_mlp.hpp>
#include <tape8/nn/parameters.hpp>
#include <tape8/ops/layernorm_mlp.hpp>

#include "nn/module_parameters.hpp"

namespace tape8 {
namespace {

LayerNormDenseConfig dense_1_config(const LayerNormMLPConfig& config) {
  return {.in_features = checked_size("layernorm_mlp", "hidden", config.hidden),
          .out_features = checked_size("layernorm_mlp", "intermediate", config.intermediate) *
                          config.activation_type.count(),
          .norm_type = config.norm_type,
          .zero_centered_gamma = config.zero_centered_gamma,
          .epsilon = config.epsilon,
          .use_bias = config.use_bias,
          .recipe = config.recipe,
          .dtype = config.dtype,
          .device = config.device,
          .kernel_init = config.kernel_init,
          .bias_init = config.bias_init};
}

DenseConfig dense_2_config(const LayerNormMLPConfig& config) {
  return {.in_features = config.intermediate,
          .out_features = config.hidden,
          .use_bias = config.use_bias,
          .recipe = config.recipe,
          .dtype = config.dtype,
          .device = config.device,
          .kernel_init = config.kernel_init,
          .bias_init = config.bias_init};
}

}  // namespace

LayerNormMLP::LayerNormMLP(const LayerNormMLPConfig& config, Rng& rng)
    : dense_1_(dense_1_config(config), rng),
      dense_2_(dense_2_config(config), rng),
      options_{.norm_type = config.norm_type,
               .zero_centered_gamma = config.zero_centered_gamma,
               .epsilon = config.epsilon,
               .activation_type = config.activation_type,
               .activation_params = config.activation_params,
               .quantizer_sets = {dense_1_.quantizer_set(), dense_2_.quantizer_set()},
               .remake_casts = config.remake_casts} {}

Variable LayerNormMLP::operator()(const Variable& x) const {
  return layernorm_mlp(x, dense_1_.gamma(), dense_1_.beta(), {dense_1_.kernel(), dense_2_.kernel()},
                       {dense_1_.bias(), dense_2_.bias()}, options_);
}

std::vector<Variable> LayerNormMLP::parameters() const {
  return tape8::parameters(dense_1_, dense_2_);
}

}  // namespace tape8
