#include <array>

#include "gradcheck/norms.hpp"
#include "gradcheck/operands.hpp"
#include "gradcheck/ops.hpp"

namespace tape8::tools::gradcheck {
namespace {

/// 16, 32 and 128 divide the last, and they do not.
const std::array kShapes{Shape{4, 130}, Shape{2, 3, 32}};
/// Without quantization, where there are no blocks.
const std::array kMoreShapes{Shape{19}, Shape{1, 32}, Shape{6, 3}, Shape{5, 17}};
const Shape kLargeShape{300, 257};

struct LayerNormCase {
  DType dtype = DType::f32;
  const RecipeCase* recipe = nullptr;
  NormCase norm;
  Shape shape;
};

enum Input : std::size_t { kX, kGamma, kBeta };

/// The norm is cast as it is computed, and the gradient passes through the cast unchanged.
ExpectedResults reference(const LayerNormCase& c, const std::vector<Tensor>& inputs,
                          const Quantizer& quantizer, const Tensor& dy,
                          std::vector<Comparison>& casts) {
  const Tensor y = c.norm.values(inputs[kX], inputs[kGamma], inputs[kBeta],
                                 c.recipe->casts_f32 ? DType::f32 : c.dtype);
  const NormFormula formula = c.norm.formula(inputs[kGamma], inputs[kBeta]);
  const Matrix x = matrix_of(inputs[kX]);
  const Matrix exact = norm(formula, x);
  const Matrix decoded = checked_cast("cast of y", quantizer.clone().quantize(y).rowwise(),
                                      Usage::rowwise, exact, c.recipe->forward, false, casts);
  const NormGradients gradients =
      norm_gradients(formula, x, {exact.rows, exact.cols, dy.to_vector<double>()});
  const double dx_limit = tolerance({.factor = c.norm.cancellation(exact.cols)}, c.dtype);
  const DType parameters = inputs[kGamma].dtype();
  return {.output = quantized(decoded.values, tolerance({}, c.dtype), exact.values),
          .gradients = {{.values = gradients.dx.values, .tolerance = dx_limit},
                        expected_sums(gradients.dgamma, parameters),
                        c.norm.beta ? expected_sums(gradients.dbeta, parameters) : Expected{}}};
}

Program make(const LayerNormCase& c, Random& random) {
  const DType parameters = parameter_dtype(c.dtype, *c.recipe);
  const std::int64_t hidden = c.shape[-1];
  LayerNormOptions options = c.norm.options();
  options.quantizer = make_quantizers(*c.recipe).x;
  Program program{
      .names = {"x", "gamma", "beta"},
      .inputs = {random.spread(c.shape, c.dtype), random_gamma(hidden, parameters, random),
                 random_beta(c.norm, hidden, parameters, random)},
      .function = [options](std::span<const Variable> in) {
        return layernorm(in[kX], in[kGamma], in[kBeta], options);
      }};
  if (c.recipe->quantizes()) {
    program.reference = [c, quantizer = options.quantizer, inputs = program.inputs](
                            const Tensor& dy, std::vector<Comparison>& casts) {
      return reference(c, inputs, quantizer, dy, casts);
    };
  }
  return program;
}

void add(Subjects& subjects, const NormCase& norm, const Shape& shape,
         std::span<const RecipeCase> recipes, bool large = false) {
  for_each_precision(recipes, [&](DType dtype, const RecipeCase& recipe) {
    if (large && !stands_for_large(dtype)) return;
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
    for (const Shape& shape : kShapes) add(subjects, norm, shape, forward_recipes());
    for (const Shape& shape : kMoreShapes) add(subjects, norm, shape, {});
  }
  for (const NormCase& norm : norm_types()) {
    add(subjects, norm, kLargeShape, forward_recipes(), true);
  }
}

}  // namespace tape8::tools::gradcheck
