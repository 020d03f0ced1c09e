#pragma once

#include "gradcheck/subject.hpp"

namespace tape8::tools::gradcheck {

// Each adds the subjects of some ops. An op costs a function here and a line in all_subjects().

void add_activation(Subjects& subjects);
void add_dense(Subjects& subjects);
void add_layernorm(Subjects& subjects);
void add_layernorm_dense(Subjects& subjects);
void add_layernorm_mlp(Subjects& subjects);
void add_matmul(Subjects& subjects);
void add_elementwise(Subjects& subjects);  ///< add, sub, mul, scale, dropout, cast
void add_forms(Subjects& subjects);        ///< reshape, transpose, sum, mean
void add_losses(Subjects& subjects);       ///< mse_loss, softmax_cross_entropy

Subjects all_subjects();

/// What a result should be, with what it would be if nothing were quantized; none where that is as
/// it should be. A few elements may come out alike by chance: for them it is not looked at.
Expected quantized(std::vector<double> values, double tolerance, std::vector<double> exact);

/// The dtype of the parameters beside an x of `dtype`: the same, and f32 for recipes that quantize,
/// as master weights are.
DType parameter_dtype(DType dtype, const RecipeCase& recipe);

}  // namespace tape8::tools::gradcheck
