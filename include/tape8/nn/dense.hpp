#pragma once

#include <cstdint>
#include <vector>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/device.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/rng.hpp>
#include <tape8/nn/init.hpp>
#include <tape8/quantize/quantizer.hpp>

namespace tape8 {

struct DenseConfig {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool use_bias = true;
  Recipe recipe = HighPrecision{};
  DType dtype = DType::f32;  ///< of the parameters
  Device device = {};        ///< where they lie, and x has to
  Initializer kernel_init = lecun_normal();
  Initializer bias_init = constant(0.0F);
};

/// x [..., in_features] -> x * kernel + bias [..., out_features]; see dense().
/// Copies share the parameters.
class TAPE8_API Dense {
 public:
  /// Throws OptionError unless both sizes are at least 1.
  Dense(const DenseConfig& config, Rng& rng);

  Variable operator()(const Variable& x) const;

  std::vector<Variable> parameters() const;
  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }  ///< none without use_bias
  const QuantizerSet& quantizer_set() const { return quantizer_set_; }

 private:
  Variable kernel_, bias_;
  QuantizerSet quantizer_set_;
};

}  // namespace tape8
