#include <array>

#include "gradcheck/norms.hpp"
#include "gradcheck/operands.hpp"
#include "gradcheck/ops.hpp"

namespace tape8::tools::gradcheck {
namespace {

const std::array kShapes{Shape{19},    Shape{1, 32},  Shape{6, 3},
                         Shape{5, 17}, Shape{4, 130}, Shape{2, 3, 16}};
const Shape kLargeShape{300, 257};

struct LayerNormCase {
  DType dtype = DType::f32;
  const RecipeCase* recipe = nullptr;
  NormCase norm;
  Shape shape;
};

LayerNormOptions options_of(const LayerNormCase& c) {
  return {.norm_type = c.norm.type,
          .zero_centered_gamma = c.norm.zero_centered_gamma,
          .epsilon = kNormEpsilon};
}

/// The norm is cast as it is computed, and the gradient passes through the cast unchanged.
ExpectedResults reference(const LayerNormCase& c, const std::vector<Tensor>& inputs,
                          const Quantizer& quantizer, const Tensor& dy,
                          std::vector<Comparison>& casts) {
  const Tensor beta = c.norm.beta ? inputs[2] : Tensor{};
  const Tensor x = c.recipe->casts_f32 ? inputs[0].to(DType::f32) : inputs[0];
  const Tensor y =
      layernorm(x, inputs[1], beta ? Variable{beta} : Variable{}, options_of(c)).tensor();
  const NormFormula formula = c.norm.formula(inputs[1], beta);
  const Matrix exact_x = matrix_of(inputs[0]);
  const Matrix exact = norm(formula, exact_x);
  const QuantizedTensor cast = quantizer.clone().quantize(y.reshape({exact.rows, exact.cols}));
  const Matrix decoded = checked_cast("cast of y", cast.rowwise(), Usage::rowwise, exact,
                                      c.recipe->forward, false, casts);
  const NormGradients gradients =
      norm_gradients(formula, exact_x, {exact.rows, exact.cols, dy.to_vector<double>()});
  ExpectedResults results{
      .output = quantized(decoded.values, tolerance({}, c.dtype), exact.values),
      .gradients = {{.values = gradients.dx.values,
                     .tolerance = tolerance({.factor = c.norm.cancellation(exact.cols)}, c.dtype)},
                    {.values = gradients.dgamma, .tolerance = tolerance({}, inputs[1].dtype())}}};
  if (c.norm.beta) {
    results.gradients.push_back(
        {.values = gradients.dbeta, .tolerance = tolerance({}, inputs[2].dtype())});
  }
  return results;
}

Program make(const LayerNormCase& c, Random& random) {
  const DType parameters = parameter_dtype(c.dtype, *c.recipe);
  const Shape hidden{c.shape[-1]};
  LayerNormOptions options = options_of(c);
  options.quantizer = make_quantizer(c.recipe->recipe, TensorRole::x);
  Program program{.names = {"x", "gamma"},
                  .inputs = {random.spread(c.shape, c.dtype), random.values(hidden, parameters)},
                  .function = [options](std::span<const Variable> in) {
                    return layernorm(in[0], in[1], in.size() > 2 ? in[2] : Variable{}, options);
                  }};
  if (c.norm.beta) {
    program.names.push_back("beta");
    program.inputs.push_back(random.values(hidden, parameters));
  }
  if (c.recipe->quantizes()) {
    program.reference = [c, quantizer = options.quantizer, inputs = program.inputs](
                            const Tensor& dy, std::vector<Comparison>& casts) {
      return reference(c, inputs, quantizer, dy, casts);
    };
  }
  return program;
}

void add(Subjects& subjects, const NormCase& norm, const Shape& shape, bool large) {
  for_each_precision(forward_recipes(), [&](DType dtype, const RecipeCase& recipe) {
    const LayerNormCase c{dtype, &recipe, norm, shape};
    subjects.push_back({.op = "layernorm",
                        .dtype = dtype,
                        .recipe = &recipe,
                        .variant = norm.name(),
                        .shape = sizes(shape),
                        .precision = {.factor = norm.cancellation(shape[-1])},
                        .differences = !large,
                        .make = [c](Random& random) { return make(c, random); }});
  });
}

}  // namespace

void add_layernorm(Subjects& subjects) {
  for (const NormCase& norm : norm_cases()) {
    for (const Shape& shape : kShapes) add(subjects, norm, shape, false);
  }
  for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
    add(subjects, {type, false, type == NormType::layernorm}, kLargeShape, true);
  }
}

}  // namespace tape8::tools::gradcheck
