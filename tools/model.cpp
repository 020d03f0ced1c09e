#include "model.hpp"

namespace tape8::tools {

Model::Model(const ModelConfig& config, Rng& rng) : dropout_(config.dropout) {
  const auto dense = [&](std::int64_t in_features, std::int64_t out_features) {
    return Dense{{.in_features = in_features,
                  .out_features = out_features,
                  .recipe = config.recipe,
                  .dtype = config.dtype,
                  .device = config.device},
                 rng};
  };
  if (config.features != config.hidden) input_ = dense(config.features, config.hidden);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    mlps_.push_back(LayerNormMLP{{.hidden = config.hidden,
                                  .intermediate = config.intermediate,
                                  .activation_type = config.activation_type,
                                  .norm_type = config.norm_type,
                                  .remake_casts = config.remake_casts,
                                  .recipe = config.recipe,
                                  .dtype = config.dtype,
                                  .device = config.device},
                                 rng});
  }
  head_ = dense(config.hidden, config.classes);
}

Variable Model::forward(const Variable& x, Rng* dropout_rng) const {
  Variable h = input_ ? (*input_)(x) : x;
  for (const LayerNormMLP& mlp : mlps_) {
    Variable y = mlp(h);
    if (dropout_rng != nullptr && dropout_ > 0.0F) y = dropout(y, dropout_, *dropout_rng);
    h = mlps_.size() > 1 ? h + y : y;
  }
  return (*head_)(h);
}

std::vector<Variable> Model::parameters() const {
  std::vector<Variable> all;
  const auto append = [&all](const auto& module) {
    const std::vector<Variable> some = module.parameters();
    all.insert(all.end(), some.begin(), some.end());
  };
  if (input_) append(*input_);
  for (const LayerNormMLP& mlp : mlps_) append(mlp);
  append(*head_);
  return all;
}

}  // namespace tape8::tools
