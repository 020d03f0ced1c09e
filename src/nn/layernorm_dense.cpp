#include <tape8/nn/layernorm_dense.hpp>
#include <tape8/ops/layernorm_dense.hpp>

#include "nn/module_parameters.hpp"

namespace tape8 {

LayerNormDense::LayerNormDense(const LayerNormDenseConfig& config, Rng& rng)
    : norm_type_(config.norm_type),
      zero_centered_gamma_(config.zero_centered_gamma),
      epsilon_(config.epsilon),
      quantizer_set_(module_quantizers(config.recipe, rng)) {
  const std::int64_t in_features =
      checked_size("layernorm_dense", "in_features", config.in_features);
  const std::int64_t out_features =
      checked_size("layernorm_dense", "out_features", config.out_features);
  const double identity = config.zero_centered_gamma ? 0.0 : 1.0;
  gamma_ = parameter(Tensor::full({in_features}, identity, config.dtype, config.device), "gamma");
  if (config.norm_type == NormType::layernorm) {
    beta_ = parameter(Tensor::zeros({in_features}, config.dtype, config.device), "beta");
  }
  kernel_ = initial_parameter("layernorm_dense", "kernel", config.kernel_init,
                              {in_features, out_features}, config.dtype, config.device, rng);
  if (config.use_bias) {
    bias_ = initial_parameter("layernorm_dense", "bias", config.bias_init, {out_features},
                              config.dtype, config.device, rng);
  }
}

Variable LayerNormDense::operator()(const Variable& x) const {
  return layernorm_dense(x, kernel_, gamma_, beta_, bias_,
                         {.norm_type = norm_type_,
                          .zero_centered_gamma = zero_centered_gamma_,
                          .epsilon = epsilon_,
                          .quantizer_set = quantizer_set_});
}

std::vector<Variable> LayerNormDense::parameters() const {
  std::vector<Variable> all{kernel_, gamma_};
  if (beta_) all.push_back(beta_);
  if (bias_) all.push_back(bias_);
  return all;
}

}  // namespace tape8
