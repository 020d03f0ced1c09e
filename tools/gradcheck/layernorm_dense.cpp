#include <array>

#include <fmt/format.h>

#include "gradcheck/norms.hpp"
#include "gradcheck/operands.hpp"
#include "gradcheck/ops.hpp"

namespace tape8::tools::gradcheck {
namespace {

struct LayerNormDenseShape {
  Shape batch;
  std::int64_t hidden_in = 0;
  std::int64_t hidden_out = 0;

  Shape x() const { return batch.joined({hidden_in}); }
  std::string name() const { return sizes(x().joined({hidden_out})); }
};

const LayerNormDenseShape kShape{{33}, 17, 9};
/// With one norm of each type.
const std::array kMoreShapes{LayerNormDenseShape{{}, 24, 10}, LayerNormDenseShape{{8}, 5, 3},
                             LayerNormDenseShape{{2, 3}, 16, 32}, LayerNormDenseShape{{1}, 130, 12},
                             LayerNormDenseShape{{32}, 128, 64}};

enum Input : std::size_t { kX, kKernel, kGamma, kBeta, kBias };

struct LayerNormDenseCase {
  DType dtype = DType::f32;
  const RecipeCase* recipe = nullptr;
  NormCase norm;
  bool bias = true;
  LayerNormDenseShape shape;

  /// The norm's gradient is rounded once before what the norm takes from it cancels, and once more.
  Precision precision() const {
    return {.roundings = 2, .factor = norm.cancellation(shape.hidden_in)};
  }
};

ExpectedResults reference(const LayerNormDenseCase& c, const std::vector<Tensor>& inputs,
                          const QuantizerSet& quantizers, const Tensor& dy,
                          std::vector<Comparison>& casts) {
  const auto norm_in = [&](DType dtype) {
    return c.norm.values(inputs[kX], inputs[kGamma], inputs[kBeta], dtype);
  };
  const NormFormula formula = c.norm.formula(inputs[kGamma], inputs[kBeta]);
  const Matrix x = matrix_of(inputs[kX]);
  const QuantizedMatmul matmul{.recipe = *c.recipe,
                               .quantizers = quantizers.clone(),
                               .x_to_cast = norm_in(c.recipe->casts_f32 ? DType::f32 : c.dtype),
                               .x = norm_in(c.dtype),
                               .x_exact = norm(formula, x),
                               .kernel = inputs[kKernel],
                               .dy = dy};
  const Products wanted = cast_products(matmul, casts);
  const Products exact = exact_products(matmul);
  const NormGradients gradients = norm_gradients(formula, x, wanted.dx);
  const std::vector<double> bias =
      c.bias ? inputs[kBias].to_vector<double>() : std::vector<double>{};
  const Matrix dy_rows{x.rows, wanted.y.cols, dy.to_vector<double>()};
  const double limit = tolerance({}, c.dtype);
  const double parameter_limit = tolerance({}, inputs[kKernel].dtype());
  return {
      .output = quantized(plus_row(wanted.y, bias).values, limit, plus_row(exact.y, bias).values),
      .gradients = {{.values = gradients.dx.values, .tolerance = tolerance(c.precision(), c.dtype)},
                    quantized(wanted.dkernel.values, parameter_limit,
                              if_cast_backward(*c.recipe, exact.dkernel, x.rows)),
                    expected_sums(gradients.dgamma, c.dtype),
                    c.norm.beta ? expected_sums(gradients.dbeta, c.dtype) : Expected{},
                    {.values = c.bias ? column_sums(dy_rows).values : std::vector<double>{},
                     .tolerance = parameter_limit}}};
}

Program make(const LayerNormDenseCase& c, Random& random) {
  const DType parameters = parameter_dtype(c.dtype, *c.recipe);
  const std::int64_t hidden_in = c.shape.hidden_in;
  const Shape hidden_out{c.shape.hidden_out};
  const QuantizerSet quantizers = make_quantizers(*c.recipe);
  const LayerNormDenseOptions options{.norm_type = c.norm.type,
                                      .zero_centered_gamma = c.norm.zero_centered_gamma,
                                      .epsilon = c.norm.options().epsilon,
                                      .quantizer_set = quantizers};
  Program program{.names = {"x", "kernel", "gamma", "beta", "bias"},
                  .inputs = {random.spread(c.shape.x(), c.dtype),
                             random.values({hidden_in, c.shape.hidden_out}, parameters),
                             random_gamma(hidden_in, parameters, random),
                             random_beta(c.norm, hidden_in, parameters, random),
                             c.bias ? random.values(hidden_out, parameters) : Tensor{}},
                  .function = [options](std::span<const Variable> in) {
                    return layernorm_dense(in[kX], in[kKernel], in[kGamma], in[kBeta], in[kBias],
                                           options);
                  }};
  if (c.recipe->quantizes()) {
    program.reference = [c, quantizers, inputs = program.inputs](const Tensor& dy,
                                                                 std::vector<Comparison>& casts) {
      return reference(c, inputs, quantizers, dy, casts);
    };
  }
  return program;
}

void add(Subjects& subjects, const NormCase& norm, bool bias, const LayerNormDenseShape& shape,
         std::span<const RecipeCase> recipes) {
  for_each_precision(recipes, [&](DType dtype, const RecipeCase& recipe) {
    const LayerNormDenseCase c{dtype, &recipe, norm, bias, shape};
    subjects.push_back({.op = "layernorm_dense",
                        .dtype = dtype,
                        .recipe = &recipe,
                        .variant = fmt::format("{}{}", norm.name(), bias ? "_bias" : ""),
                        .shape = shape.name(),
                        .precision = c.precision(),
                        .make = [c](Random& random) { return make(c, random); }});
  });
}

}  // namespace

void add_layernorm_dense(Subjects& subjects) {
  for (const NormCase& norm : norm_cases()) {
    for (const bool bias : {true, false}) add(subjects, norm, bias, kShape, forward_recipes());
  }
  for (const NormCase& norm : norm_types()) {
    for (const LayerNormDenseShape& shape : kMoreShapes) {
      add(subjects, norm, true, shape, quantized_recipes());
    }
  }
}

}  // namespace tape8::tools::gradcheck
