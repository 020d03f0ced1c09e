#include <array>

#include <fmt/format.h>

#include "gradcheck/operands.hpp"
#include "gradcheck/ops.hpp"

namespace tape8::tools::gradcheck {
namespace {

struct DenseShape {
  Shape batch;
  std::int64_t hidden_in = 0;
  Shape hidden_out;
  bool large = false;
};

/// Sizes that 16, 32 and 128 divide and that they do not, one row, no batch, several axes.
const std::array kShapes{
    DenseShape{{}, 17, {9}},       DenseShape{{1}, 16, {32}},          DenseShape{{4}, 5, {1}},
    DenseShape{{33}, 17, {9}},     DenseShape{{16}, 32, {16}},         DenseShape{{2, 3}, 24, {10}},
    DenseShape{{2, 1, 3}, 8, {4}}, DenseShape{{7}, 48, {2, 3}},        DenseShape{{5}, 130, {12}},
    DenseShape{{32}, 128, {64}},   DenseShape{{150}, 260, {140}, true}};

std::string name_of(const DenseShape& shape) {
  return sizes(shape.batch.joined({shape.hidden_in}).joined(shape.hidden_out));
}

struct DenseCase {
  DType dtype = DType::f32;
  const RecipeCase* recipe = nullptr;
  bool bias = true;
  DenseShape shape;
};

ExpectedResults reference(const DenseCase& c, const std::vector<Tensor>& inputs,
                          const QuantizerSet& quantizers, const Tensor& dy,
                          std::vector<Comparison>& casts) {
  const Matrix x = matrix_of(inputs[0]);
  const Tensor rows = inputs[0].reshape({x.rows, x.cols});
  const QuantizedMatmul matmul{.recipe = *c.recipe,
                               .quantizers = quantizers.clone(),
                               .x_to_cast = rows,
                               .x = rows,
                               .x_exact = x,
                               .kernel = inputs[1],
                               .dy = dy};
  const Operands exact = exact_operands(matmul);
  const Products wanted = multiply(cast_operands(matmul, casts));
  const Products unquantized = multiply(exact);
  const std::vector<double> bias = c.bias ? inputs[2].to_vector<double>() : std::vector<double>{};
  const double limit = tolerance({}, c.dtype);
  const double parameter_limit = tolerance({}, inputs[1].dtype());
  const auto expected = [&](const Matrix& values, const Matrix& plain, double at_most) {
    const bool backward_quantizes = c.recipe->backward_override != BackwardOverride::high_precision;
    return quantized(values.values, at_most,
                     backward_quantizes ? plain.values : std::vector<double>{});
  };
  ExpectedResults results{
      .output =
          quantized(plus_row(wanted.y, bias).values, limit, plus_row(unquantized.y, bias).values),
      .gradients = {expected(wanted.dx, unquantized.dx, limit),
                    expected(wanted.dkernel, unquantized.dkernel, parameter_limit)}};
  if (c.bias) {
    results.gradients.push_back(
        {.values = column_sums(exact.dy_for_x), .tolerance = parameter_limit});
  }
  return results;
}

Program make(const DenseCase& c, Random& random) {
  const DType parameters = parameter_dtype(c.dtype, *c.recipe);
  const Shape hidden_in{c.shape.hidden_in};
  const QuantizerSet quantizers = make_quantizer_set(c.recipe->recipe);
  Program program{.names = {"x", "kernel"},
                  .inputs = {random.values(c.shape.batch.joined(hidden_in), c.dtype),
                             random.values(hidden_in.joined(c.shape.hidden_out), parameters)},
                  .function = [quantizers](std::span<const Variable> in) {
                    return dense(in[0], in[1], in.size() > 2 ? in[2] : Variable{},
                                 {.quantizer_set = quantizers});
                  }};
  if (c.bias) {
    program.names.push_back("bias");
    program.inputs.push_back(random.values(c.shape.hidden_out, parameters));
  }
  if (c.recipe->quantizes()) {
    program.reference = [c, quantizers, inputs = program.inputs](const Tensor& dy,
                                                                 std::vector<Comparison>& casts) {
      return reference(c, inputs, quantizers, dy, casts);
    };
  }
  return program;
}

}  // namespace

void add_dense(Subjects& subjects) {
  for (const DenseShape& shape : kShapes) {
    for (const bool bias : {true, false}) {
      for_each_precision(quantized_recipes(), [&](DType dtype, const RecipeCase& recipe) {
        const DenseCase c{dtype, &recipe, bias, shape};
        subjects.push_back({.op = "dense",
                            .dtype = dtype,
                            .recipe = &recipe,
                            .variant = bias ? "bias" : "no_bias",
                            .shape = name_of(shape),
                            .differences = !shape.large,
                            .make = [c](Random& random) { return make(c, random); }});
      });
    }
  }
}

}  // namespace tape8::tools::gradcheck
