#pragma once

#include <vector>

#include <tape8/quantize/quantizer.hpp>

#include "support/float_table.hpp"

namespace tape8::test {

/// Which roles of a set quantize, their format, and scales as if some passes had warmed them up.
struct SetCase {
  Fp8Format format = Fp8Format::hybrid;
  bool x = true, kernel = true, dgrad = true;
};

/// Every choice of roles but none, in both formats.
inline std::vector<SetCase> set_cases() {
  std::vector<SetCase> cases;
  for (const Fp8Format format : {Fp8Format::hybrid, Fp8Format::e4m3}) {
    for (unsigned roles = 1; roles < 8; ++roles) {
      cases.push_back({format, (roles & 1U) != 0, (roles & 2U) != 0, (roles & 4U) != 0});
    }
  }
  return cases;
}

inline QuantizerSet make_set(const SetCase& c) {
  const DelayedScaling recipe{.format = c.format, .amax_history_len = 2};
  const auto warmed = [&](TensorRole role, float scale) {
    Quantizer q = make_quantizer(recipe, role);
    q.set_state(Scale{scale}, std::vector<float>{0.0F, q.dtype() == DType::e5m2 ? 1.0F : 2.0F});
    return q;
  };
  QuantizerSet set;
  if (c.x) set.x = warmed(TensorRole::x, 113.0F);
  if (c.kernel) set.kernel = warmed(TensorRole::kernel, 301.0F);
  if (c.dgrad)
    set.dgrad = warmed(TensorRole::dgrad, c.format == Fp8Format::hybrid ? 9001.0F : 307.0F);
  return set;
}

/// What a matmul reads of f32 or bf16 values: their cast by the quantizer, or their conversion to
/// the compute type.
inline Values operand(const Values& values, const Quantizer& quantizer, DType compute) {
  return quantizer ? cast_and_decoded(values, quantizer.scale().value, quantizer.dtype())
                   : rounded(values, compute);
}

}  // namespace tape8::test
