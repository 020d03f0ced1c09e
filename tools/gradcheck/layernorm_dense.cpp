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
  bool large = false;

  Shape x() const { return batch.joined({hidden_in}); }
  std::string name() const { return sizes(x().joined({hidden_out})); }
};

const std::array kShapes{LayerNormDenseShape{{33}, 17, 9}, LayerNormDenseShape{{2, 3}, 16, 32},
                         LayerNormDenseShape{{1}, 130, 12}};
/// With one norm of each type only.
const std::array kMoreShapes{LayerNormDenseShape{{}, 24, 10}, LayerNormDenseShape{{8}, 5, 3},
                             LayerNormDenseShape{{32}, 128, 64},
                             LayerNormDenseShape{{150}, 260, 140, true}};

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
    const Variable beta = c.norm.beta ? Variable{inputs[kBeta]} : Variable{};
    return layernorm(inputs[kX].to(dtype), inputs[kGamma], beta,
                     {.norm_type = c.norm.type,
                      .zero_centered_gamma = c.norm.zero_centered_gamma,
                      .epsilon = kNormEpsilon})
        .tensor()
        .reshape({-1, c.shape.hidden_in});
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
  const Operands exact = exact_operands(matmul);
  const Products wanted = multiply(cast_operands(matmul, casts));
  const Products unquantized = multiply(exact);
  const NormGradients gradients = norm_gradients(formula, x, wanted.dx);
  const std::vector<double> bias =
      c.bias ? inputs[kBias].to_vector<double>() : std::vector<double>{};

  const double limit = tolerance({}, c.dtype);
  const double parameter_limit = tolerance({}, inputs[kKernel].dtype());
  // The sums of the norm's gradients are made of what was rounded to x's dtype; they may cancel.
  const double norm_limit = tolerance({.roundings = 2}, c.dtype);
  const bool backward_quantizes = c.recipe->backward_override != BackwardOverride::high_precision;
  ExpectedResults results{
      .output =
          quantized(plus_row(wanted.y, bias).values, limit, plus_row(unquantized.y, bias).values),
      .gradients = {
          {.values = gradients.dx.values, .tolerance = tolerance(c.precision(), c.dtype)},
          quantized(wanted.dkernel.values, parameter_limit,
                    backward_quantizes ? unquantized.dkernel.values : std::vector<double>{}),
          {.values = gradients.dgamma, .tolerance = norm_limit},
          {.values = c.norm.beta ? gradients.dbeta : std::vector<double>{},
           .tolerance = norm_limit},
          {.values = c.bias ? column_sums(exact.dy_for_x) : std::vector<double>{},
           .tolerance = parameter_limit}}};
  return results;
}

Program make(const LayerNormDenseCase& c, Random& random) {
  const DType parameters = parameter_dtype(c.dtype, *c.recipe);
  const Shape hidden_in{c.shape.hidden_in};
  const Shape hidden_out{c.shape.hidden_out};
  const QuantizerSet quantizers = make_quantizer_set(c.recipe->recipe);
  const LayerNormDenseOptions options{.norm_type = c.norm.type,
                                      .zero_centered_gamma = c.norm.zero_centered_gamma,
                                      .epsilon = kNormEpsilon,
                                      .quantizer_set = quantizers};
  Program program{.names = {"x", "kernel", "gamma", "beta", "bias"},
                  .inputs = {random.spread(c.shape.x(), c.dtype),
                             random.values(hidden_in.joined(hidden_out), parameters),
                             random.values(hidden_in, parameters),
                             c.norm.beta ? random.values(hidden_in, parameters) : Tensor{},
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

void add(Subjects& subjects, const NormCase& norm, bool bias, const LayerNormDenseShape& shape) {
  for_each_precision(quantized_recipes(), [&](DType dtype, const RecipeCase& recipe) {
    const LayerNormDenseCase c{dtype, &recipe, norm, bias, shape};
    subjects.push_back({.op = "layernorm_dense",
                        .dtype = dtype,
                        .recipe = &recipe,
                        .variant = fmt::format("{}{}", norm.name(), bias ? "_bias" : ""),
                        .shape = shape.name(),
                        .precision = c.precision(),
                        .differences = !shape.large,
                        .make = [c](Random& random) { return make(c, random); }});
  });
}

}  // namespace

void add_layernorm_dense(Subjects& subjects) {
  for (const NormCase& norm : norm_cases()) {
    for (const bool bias : {true, false}) {
      for (const LayerNormDenseShape& shape : kShapes) add(subjects, norm, bias, shape);
    }
  }
  for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
    for (const LayerNormDenseShape& shape : kMoreShapes) {
      add(subjects, {type, false, type == NormType::layernorm}, true, shape);
    }
  }
}

}  // namespace tape8::tools::gradcheck
