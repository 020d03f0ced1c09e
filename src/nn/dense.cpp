#include <tape8/nn/dense.hpp>
#include <tape8/ops/dense.hpp>

#include "nn/module_parameters.hpp"

namespace tape8 {

Dense::Dense(const DenseConfig& config, Rng& rng)
    : quantizer_set_(module_quantizers(config.recipe, rng)) {
  const std::int64_t in_features = checked_size("dense", "in_features", config.in_features);
  const std::int64_t out_features = checked_size("dense", "out_features", config.out_features);
  kernel_ = initial_parameter("dense", "kernel", config.kernel_init, {in_features, out_features},
                              config.dtype, config.device, rng);
  if (config.use_bias) {
    bias_ = initial_parameter("dense", "bias", config.bias_init, {out_features}, config.dtype,
                              config.device, rng);
  }
}

Variable Dense::operator()(const Variable& x) const {
  return dense(x, kernel_, bias_, {.quantizer_set = quantizer_set_});
}

std::vector<Variable> Dense::parameters() const {
  std::vector<Variable> all{kernel_};
  if (bias_) all.push_back(bias_);
  return all;
}

}  // namespace tape8
