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
const std::array kShapes{DenseShape{{}, 17, {9}},     DenseShape{{1}, 16, {32}},
                         DenseShape{{4}, 5, {1}},     DenseShape{{33}, 17, {9}},
                         DenseShape{{16}, 32, {16}},  DenseShape{{2, 3}, 24, {10}},
                         DenseShape{{7}, 48, {2, 3}}, DenseShape{{5}, 130, {12}},
                         DenseShape{{32}, 128, {64}}, DenseShape{{2, 1, 3}, 8, {4}}};
const DenseShape kWithoutBias{{33}, 17, {9}};
const DenseShape kLarge{{150}, 260, {140}, true};

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
  const Products wanted = cast_products(matmul, casts);
  const Products exact = exact_products(matmul);
  const std::vector<double> bias = c.bias ? inputs[2].to_vector<double>() : std::vector<double>{};
  const double limit = tolerance({}, c.dtype);
  const double parameter_limit = tolerance({}, inputs[1].dtype());
  const Matrix dy_rows{x.rows, wanted.y.cols, dy.to_vector<double>()};
  return {
      .output = quantized(plus_row(wanted.y, bias).values, limit, plus_row(exact.y, bias).values),
      .gradients = {
          quantized(wanted.dx.values, limit, if_cast_backward(*c.recipe, exact.dx, exact.y.cols)),
          quantized(wanted.dkernel.values, parameter_limit,
                    if_cast_backward(*c.recipe, exact.dkernel, x.rows)),
          {.values = c.bias ? column_sums(dy_rows).values : std::vector<double>{},
           .tolerance = parameter_limit}}};
}

Program make(const DenseCase& c, Random& random) {
  const DType parameters = parameter_dtype(c.dtype, *c.recipe);
  const Shape hidden_in{c.shape.hidden_in};
  const QuantizerSet quantizers = make_quantizers(*c.recipe);
  Program program{.names = {"x", "kernel", "bias"},
                  .inputs = {random.values(c.shape.batch.joined(hidden_in), c.dtype),
                             random.values(hidden_in.joined(c.shape.hidden_out), parameters),
                             c.bias ? random.values(c.shape.hidden_out, parameters) : Tensor{}},
                  .function = [quantizers](std::span<const Variable> in) {
                    return dense(in[0], in[1], in[2], {.quantizer_set = quantizers});
                  }};
  if (c.recipe->quantizes()) {
    program.reference = [c, quantizers, inputs = program.inputs](const Tensor& dy,
                                                                 std::vector<Comparison>& casts) {
      return reference(c, inputs, quantizers, dy, casts);
    };
  }
  return program;
}

void add(Subjects& subjects, const DenseShape& shape, bool bias,
         std::span<const RecipeCase> recipes) {
  for_each_precision(recipes, [&](DType dtype, const RecipeCase& recipe) {
    if (shape.large && !stands_for_large(dtype)) return;
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

}  // namespace

void add_dense(Subjects& subjects) {
  for (const DenseShape& shape : kShapes) add(subjects, shape, true, quantized_recipes());
  add(subjects, kWithoutBias, false, quantized_recipes());
  add(subjects, kLarge, true, forward_recipes());
}

}  // namespace tape8::tools::gradcheck
