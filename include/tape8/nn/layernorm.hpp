#pragma once

#include <cstdint>
#include <vector>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/device.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/norm_type.hpp>

namespace tape8 {

struct LayerNormConfig {
  std::int64_t features = 0;
  NormType norm_type = NormType::layernorm;
  bool zero_centered_gamma = false;
  float epsilon = 1e-6F;
  DType dtype = DType::f32;  ///< of the parameters
  Device device = {};        ///< where they lie, and x has to
};

/// x [..., features] -> norm(x) [..., features]; see layernorm(). gamma starts as the identity,
/// beta (layernorm only) as zeros.
/// Copies share the parameters.
class TAPE8_API LayerNorm {
 public:
  /// Throws OptionError unless there is at least 1 feature.
  explicit LayerNorm(const LayerNormConfig& config);

  Variable operator()(const Variable& x) const;

  std::vector<Variable> parameters() const;
  const Variable& gamma() const { return gamma_; }
  const Variable& beta() const { return beta_; }  ///< none for rmsnorm

 private:
  NormType norm_type_;
  bool zero_centered_gamma_;
  float epsilon_;
  Variable gamma_, beta_;
};

}  // namespace tape8
