#pragma once

#include <string>
#include <vector>

#include "gradcheck/matrix.hpp"
#include "gradcheck/recipes.hpp"

namespace tape8::tools::gradcheck {

/// A matmul and its gradients.
struct Products {
  Matrix y, dx, dkernel;
};

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

/// The products of the operands as they are: without quantization.
Products exact_products(const QuantizedMatmul& matmul);
/// The products of the operands that the recipe's casts make; `casts` receives how near each is.
Products cast_products(const QuantizedMatmul& matmul, std::vector<Comparison>& casts);

/// One of exact_products() of backward, if it shows whether that quantized: none with an override,
/// or where blocks may hold one value each, which scales of any mantissa cast exactly.
std::vector<double> if_cast_backward(const RecipeCase& recipe, const Matrix& exact,
                                     std::int64_t contracted);

/// A cast, decoded; `casts` receives how near it is to `exact`, and what is wrong with its format.
Matrix checked_cast(std::string name, const QuantizedPart& part, Usage usage, const Matrix& exact,
                    DType format, bool stochastic, std::vector<Comparison>& casts);

/// The largest error of a cast to a format, relative to the largest value.
double cast_tolerance(DType format, bool stochastic);

}  // namespace tape8::tools::gradcheck
