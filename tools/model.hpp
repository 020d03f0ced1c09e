#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tape8/tape8.hpp>

namespace tape8::tools {

struct ModelConfig {
  std::int64_t features = 0;
  std::int64_t classes = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t layers = 1;
  ActivationType activation_type = gelu;
  NormType norm_type = NormType::layernorm;
  float dropout = 0.0F;  ///< of each LayerNormMLP's output, before the residual is added
  Recipe recipe = HighPrecision{};
  bool remake_casts = false;  ///< see LayerNormMLPConfig
  DType dtype = DType::f32;   ///< of parameters and examples
  Device device = {};         ///< where they lie
};

/// x [batch, features] -> Dense to hidden where that differs -> LayerNormMLP, `layers` times, each
/// with a residual where there are several -> Dense -> logits [batch, classes].
class Model {
 public:
  Model(const ModelConfig& config, Rng& rng);

  Variable operator()(const Variable& x) const { return forward(x, nullptr); }
  /// The same with dropout, as `rng` draws it.
  Variable training(const Variable& x, Rng& rng) const { return forward(x, &rng); }
  std::vector<Variable> parameters() const;

 private:
  Variable forward(const Variable& x, Rng* dropout_rng) const;

  float dropout_;
  std::optional<Dense> input_;
  std::vector<LayerNormMLP> mlps_;
  std::optional<Dense> head_;
};

}  // namespace tape8::tools
