#include <tape8/nn/layernorm.hpp>
#include <tape8/ops/layernorm.hpp>

#include "nn/module_parameters.hpp"

namespace tape8 {

LayerNorm::LayerNorm(const LayerNormConfig& config)
    : norm_type_(config.norm_type),
      zero_centered_gamma_(config.zero_centered_gamma),
      epsilon_(config.epsilon) {
  const std::int64_t features = checked_size("layernorm", "features", config.features);
  const double identity = config.zero_centered_gamma ? 0.0 : 1.0;
  gamma_ = parameter(Tensor::full({features}, identity, config.dtype, config.device), "gamma");
  if (config.norm_type == NormType::layernorm) {
    beta_ = parameter(Tensor::zeros({features}, config.dtype, config.device), "beta");
  }
}

Variable LayerNorm::operator()(const Variable& x) const {
  return layernorm(
      x, gamma_, beta_,
      {.norm_type = norm_type_, .zero_centered_gamma = zero_centered_gamma_, .epsilon = epsilon_});
}

std::vector<Variable> LayerNorm::parameters() const {
  std::vector<Variable> all{gamma_};
  if (beta_) all.push_back(beta_);
  return all;
}

}  // namespace tape8
