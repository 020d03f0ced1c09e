#include "gradcheck/operands.hpp"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "gradcheck/decode.hpp"

namespace tape8::tools::gradcheck {
namespace {

/// What the three products of a matmul and its gradients contract.
struct Operands {
  Matrix x, kernel;                    // fprop
  Matrix x_backward, kernel_backward;  // wgrad, dgrad
  Matrix dy_for_x, dy_for_kernel;      // dgrad, wgrad
};

Tensor as_matrix(const Tensor& tensor, const Matrix& form) {
  return tensor.reshape({form.rows, form.cols});
}

/// A cast that was made for one usage alone is decoded for the other: in f32, to the compute dtype.
Matrix for_other_usage(const QuantizedPart& part, const Matrix& decoded, DType dtype) {
  return is_block_scaled(part.scaling_mode) ? rounded(rounded(decoded, DType::f32), dtype)
                                            : decoded;
}

Products multiply(const Operands& operands) {
  return {.y = product(operands.x, operands.kernel),
          .dx = product(operands.dy_for_x, transposed(operands.kernel_backward)),
          .dkernel = product(transposed(operands.x_backward), operands.dy_for_kernel)};
}

Operands exact_operands(const QuantizedMatmul& matmul) {
  const Matrix& x = matmul.x_exact;
  const Matrix kernel = matrix_of(matmul.kernel, matmul.kernel.rank() - 1);
  const Matrix dy{x.rows, kernel.cols, matmul.dy.to_vector<double>()};
  return {x, kernel, x, kernel, dy, dy};
}

Operands cast_operands(const QuantizedMatmul& matmul, std::vector<Comparison>& casts) {
  const RecipeCase& recipe = matmul.recipe;
  const Operands exact = exact_operands(matmul);
  const QuantizedTensor x = matmul.quantizers.x.quantize(matmul.x_to_cast);
  const QuantizedTensor kernel =
      matmul.quantizers.kernel.quantize(as_matrix(matmul.kernel, exact.kernel));
  const auto cast = [&](const char* name, const QuantizedTensor& tensor, Usage usage,
                        const Matrix& of) {
    return checked_cast(name, tensor.operand(usage), usage, of, recipe.forward, false, casts);
  };

  Operands result = exact;
  result.x = cast("rowwise cast of x", x, Usage::rowwise, exact.x);
  result.kernel = cast("columnwise cast of kernel", kernel, Usage::columnwise, exact.kernel);
  switch (recipe.backward_override) {
    case BackwardOverride::none:
      break;
    case BackwardOverride::high_precision:
      result.x_backward.values = matmul.x.to_vector<double>();
      result.kernel_backward = rounded(exact.kernel, matmul.x.dtype());
      return result;
    case BackwardOverride::dequantized:
      result.x_backward = for_other_usage(x.rowwise(), result.x, matmul.x.dtype());
      result.kernel_backward =
          for_other_usage(kernel.columnwise(), result.kernel, matmul.x.dtype());
      return result;
  }

  const QuantizedTensor dy = matmul.quantizers.dgrad.quantize(as_matrix(matmul.dy, exact.dy_for_x));
  const auto cast_dy = [&](const char* name, Usage usage) {
    return checked_cast(name, dy.operand(usage), usage, exact.dy_for_x, recipe.backward,
                        recipe.stochastic, casts);
  };
  result.x_backward = cast("columnwise cast of x", x, Usage::columnwise, exact.x);
  result.kernel_backward = cast("rowwise cast of kernel", kernel, Usage::rowwise, exact.kernel);
  result.dy_for_x = cast_dy("rowwise cast of dy", Usage::rowwise);
  result.dy_for_kernel = cast_dy("columnwise cast of dy", Usage::columnwise);
  return result;
}

}  // namespace

double cast_tolerance(DType format, bool stochastic) {
  // Half a unit in the last place; with e2m1, whose largest values are 4 and 6, that is 1/6, and
  // block scales are rounded to e4m3, 2^-4 off. Stochastic rounding takes either neighbour.
  double tolerance = 0x1p-4;
  if (format == DType::e5m2) tolerance = 0x1p-3;
  if (format == DType::e2m1) tolerance = (stochastic ? 2.0 : 1.0) / 6.0 + 0x1p-4;
  // Of values that were rounded to 16 bits before.
  return tolerance + gradcheck_tolerance(DType::bf16);
}

Matrix checked_cast(std::string name, const QuantizedPart& part, Usage usage, const Matrix& exact,
                    DType format, bool stochastic, std::vector<Comparison>& casts) {
  Matrix decoded = decode(part, usage, exact.rows, exact.cols);
  const Matrix wanted = part.hadamard ? hadamard_transformed(exact) : exact;
  const Tensor values = Tensor::from(decoded.values, {decoded.rows, decoded.cols});
  casts.push_back(
      compare(std::move(name), values,
              {.values = wanted.values, .tolerance = cast_tolerance(format, stochastic)}));
  if (part.data.dtype() != format) {
    Comparison& cast = casts.back();
    cast.verdict = Verdict::failed;
    cast.error = std::numeric_limits<double>::infinity();
    cast.message = fmt::format("{}: is stored in {}, should be in {}", cast.name,
                               to_string(part.data.dtype()), to_string(format));
  }
  return decoded;
}

Products exact_products(const QuantizedMatmul& matmul) { return multiply(exact_operands(matmul)); }

Products cast_products(const QuantizedMatmul& matmul, std::vector<Comparison>& casts) {
  return multiply(cast_operands(matmul, casts));
}

std::vector<double> if_cast_backward(const RecipeCase& recipe, const Matrix& exact,
                                     std::int64_t contracted) {
  const bool shows = recipe.backward_override != BackwardOverride::high_precision && contracted > 1;
  return shows ? exact.values : std::vector<double>{};
}

}  // namespace tape8::tools::gradcheck
