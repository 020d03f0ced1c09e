#include "gradcheck/ops.hpp"

#include <utility>

namespace tape8::tools::gradcheck {

Subjects all_subjects() {
  Subjects subjects;
  add_activation(subjects);
  add_dense(subjects);
  add_layernorm(subjects);
  add_layernorm_dense(subjects);
  add_layernorm_mlp(subjects);
  add_matmul(subjects);
  add_elementwise(subjects);
  add_forms(subjects);
  add_losses(subjects);
  return subjects;
}

Expected quantized(std::vector<double> values, double tolerance, std::vector<double> exact) {
  constexpr std::size_t kEnough = 32;
  Expected expected{.values = std::move(values), .tolerance = tolerance};
  if (exact.size() >= kEnough) expected.unquantized = std::move(exact);
  return expected;
}

DType parameter_dtype(DType dtype, const RecipeCase& recipe) {
  return recipe.quantizes() ? DType::f32 : dtype;
}

}  // namespace tape8::tools::gradcheck
