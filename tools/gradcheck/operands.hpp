#pragma once

#include <string>
#include <vector>

#include "gradcheck/matrix.hpp"
#include "gradcheck/recipes.hpp"

namespace tape8::tools::gradcheck {

/// What the three products of a matmul and its gradients contract.
struct Operands {
  Matrix x, kernel;                    ///< fprop
  Matrix x_backward, kernel_backward;  ///< wgrad, dgrad
  Matrix dy_for_x, dy_for_kernel;      ///< dgrad, wgrad
};

struct Products {
  Matrix y, dx, dkernel;
};

Products multiply(const Operands& operands);

/// A matmul of a recipe: what it was given, and what that is before any cast.
struct QuantizedMatmul {
  const RecipeCase& recipe;
  QuantizerSet quantizers;  ///< clones of the op's, as they were before its casts
  Tensor x_to_cast;         ///< [rows, hidden_in]: what x's quantizer reads
  Tensor x;                 ///< the same in the compute dtype
  Matrix x_exact;           ///< the same in float64
  Tensor kernel;            ///< [hidden_in, hidden_out...]
  Tensor dy;                ///< [rows..., hidden_out...]
};

/// The operands as they are: without quantization.
Operands exact_operands(const QuantizedMatmul& matmul);
/// The operands that the recipe's casts make; `casts` receives how near each is.
Operands cast_operands(const QuantizedMatmul& matmul, std::vector<Comparison>& casts);

/// A cast, decoded; `casts` receives how near it is to `exact`, and what is wrong with its format.
Matrix checked_cast(std::string name, const QuantizedPart& part, Usage usage, const Matrix& exact,
                    DType format, bool stochastic, std::vector<Comparison>& casts);

/// The largest error of a cast to a format, relative to the largest value.
double cast_tolerance(DType format, bool stochastic);

}  // namespace tape8::tools::gradcheck
