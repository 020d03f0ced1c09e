#pragma once

#include <array>
#include <vector>

#include <tape8/ops/activation.hpp>
#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm_dense.hpp>
#include <tape8/ops/layernorm_mlp.hpp>

#include "support/run.hpp"

namespace tape8::test {

/// The inputs of a layernorm_mlp, in the order in which its node has them.
struct MlpCase {
  std::int64_t rows = 9, hidden = 33, intermediate = 17;
  DType dtype = DType::f32;
  bool beta = true, biases = true;

  std::vector<Tensor> inputs(const ActivationType& type) const {
    const std::int64_t wide = intermediate * type.count();
    const DType stat = dtype == DType::f64 ? DType::f64 : DType::f32;
    return {random_tensor({rows, hidden}, 1, dtype, -2.0, 3.0),
            random_tensor({hidden}, 2, stat, 0.5, 1.5),
            beta ? random_tensor({hidden}, 3, stat) : Tensor{},
            random_tensor({hidden, wide}, 4, stat, -0.5, 0.5),
            random_tensor({intermediate, hidden}, 5, stat),
            biases ? random_tensor({wide}, 6, stat) : Tensor{},
            biases ? random_tensor({hidden}, 7, stat) : Tensor{}};
  }
};

inline Variable fused_mlp(const std::vector<Variable>& v, const LayerNormMLPOptions& options) {
  return layernorm_mlp(v[0], v[1], v[2], {v[3], v[4]}, {v[5], v[6]}, options);
}

/// The same out of three nodes.
inline Variable composed_mlp(const std::vector<Variable>& v, const LayerNormMLPOptions& options) {
  const Variable z = layernorm_dense(v[0], v[3], v[1], v[2], v[5],
                                     {.norm_type = options.norm_type,
                                      .zero_centered_gamma = options.zero_centered_gamma,
                                      .epsilon = options.epsilon,
                                      .quantizer_set = options.quantizer_sets[0]});
  return dense(activation(z, options.activation_type, {}, options.activation_params), v[4], v[6],
               {.quantizer_set = options.quantizer_sets[1]});
}

}  // namespace tape8::test
