#include <array>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "gradcheck/norms.hpp"
#include "gradcheck/operands.hpp"
#include "gradcheck/ops.hpp"

namespace tape8::tools::gradcheck {
namespace {

struct MlpShape {
  Shape batch;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
};

const std::array kShapes{MlpShape{{5}, 17, 9}, MlpShape{{2, 3}, 16, 32}, MlpShape{{1}, 130, 12},
                         MlpShape{{32}, 64, 128}};
/// The first one with every norm and bias, the others with the first norm and biases.
const MlpShape& kVariedShape = kShapes.front();
const std::array<ActivationType, 3> kActivations{gelu, swiglu, clamped_swiglu};
constexpr ActivationParams kParams{{.limit = 1.37F, .alpha = 1.702F, .glu_linear_offset = 0.75F}};

enum Input : std::size_t { kX, kGamma, kBeta, kKernel1, kKernel2, kBias1, kBias2 };

struct MlpCase {
  DType dtype = DType::f32;
  const RecipeCase* recipe = nullptr;
  NormCase norm;
  ActivationType type = gelu;
  bool bias = true;
  bool remake_casts = false;
  MlpShape shape;

  std::string variant() const {
    return fmt::format("{}_{}{}{}", norm.name(), to_string(type), bias ? "_bias" : "",
                       remake_casts ? "_remake_casts" : "");
  }
  /// Norm, both matmuls and the activation round their results, and their gradients again.
  Precision precision() const {
    return {.roundings = 5, .factor = norm.cancellation(shape.hidden)};
  }
  DType cast_from() const { return recipe->casts_f32 ? DType::f32 : dtype; }
};

/// The gradient of `op` in x, by the tape.
Tensor gradient_of(const std::function<Variable(const Variable&)>& op, const Tensor& x,
                   const Tensor& dy) {
  const Variable leaf = parameter(x);
  Tape tape;
  tape.backward(op(leaf), dy);
  return leaf.grad();
}

Tensor rows_of(const Tensor& tensor) { return tensor.reshape({-1, tensor.shape()[-1]}); }

/// Each half of the layer on the operands that the op has, which the ops that it is made of give.
ExpectedResults reference(const MlpCase& c, const std::vector<Tensor>& inputs,
                          const std::array<QuantizerSet, 2>& sets, const Tensor& dy,
                          std::vector<Comparison>& casts) {
  const NormFormula formula = c.norm.formula(inputs[kGamma], inputs[kBeta]);
  const ClampedSwigluParams& params = kParams.clamped_swiglu;
  const auto bias_of = [&](Input bias) {
    return c.bias ? inputs[bias].to_vector<double>() : std::vector<double>{};
  };
  const auto norm_in = [&](DType dtype) {
    return c.norm.values(inputs[kX], inputs[kGamma], inputs[kBeta], dtype);
  };
  const Matrix x = matrix_of(inputs[kX]);
  QuantizedMatmul first{.recipe = *c.recipe,
                        .quantizers = sets[0].clone(),
                        .x_to_cast = norm_in(c.cast_from()),
                        .x = norm_in(c.dtype),
                        .x_exact = norm(formula, x),
                        .kernel = inputs[kKernel1],
                        .dy = {}};
  const LayerNormDenseOptions options{.norm_type = c.norm.type,
                                      .zero_centered_gamma = c.norm.zero_centered_gamma,
                                      .epsilon = c.norm.options().epsilon,
                                      .quantizer_set = sets[0].clone()};
  const Tensor z = rows_of(layernorm_dense(inputs[kX], inputs[kKernel1], inputs[kGamma],
                                           c.norm.beta ? Variable{inputs[kBeta]} : Variable{},
                                           c.bias ? Variable{inputs[kBias1]} : Variable{}, options)
                               .tensor());
  const auto act = [&](const Variable& at) { return activation(at, c.type, {}, kParams); };
  const QuantizedMatmul second{.recipe = *c.recipe,
                               .quantizers = sets[1].clone(),
                               .x_to_cast = act(z.to(c.cast_from())).tensor(),
                               .x = act(z).tensor(),
                               .x_exact = activation(c.type, params, matrix_of(z)),
                               .kernel = inputs[kKernel2],
                               .dy = rows_of(dy)};

  // The gradients between the ops, in the types that they pass on.
  const QuantizerSet replay = sets[1].clone();
  const Tensor g = gradient_of(
      [&](const Variable& a) { return dense(a, inputs[kKernel2], {}, {.quantizer_set = replay}); },
      second.x, second.dy);
  const bool casts_dz = c.recipe->backward_override == BackwardOverride::none;
  const DType dz_from = casts_dz ? c.cast_from() : c.dtype;
  first.dy = gradient_of(act, z.to(dz_from), g.to(dz_from));
  const Matrix dz = activation_gradient(c.type, params, matrix_of(z), matrix_of(g));

  const Products wanted_2 = cast_products(second, casts);
  const Products exact_2 = exact_products(second);
  const Products wanted_1 = cast_products(first, casts);
  const Products exact_1 = exact_products(first);
  const double limit = tolerance({}, c.dtype);
  casts.push_back(
      compare("activation's input", z,
              {.values = plus_row(wanted_1.y, bias_of(kBias1)).values, .tolerance = limit}));
  casts.push_back(
      compare("activation's gradient", g, {.values = wanted_2.dx.values, .tolerance = limit}));

  const NormGradients gradients = norm_gradients(formula, x, wanted_1.dx);
  const DType parameters = inputs[kKernel1].dtype();
  const auto kernel_gradient = [&](const Products& wanted, const Products& exact) {
    return quantized(wanted.dkernel.values, tolerance({}, parameters),
                     if_cast_backward(*c.recipe, exact.dkernel, x.rows));
  };
  return {.output = quantized(plus_row(wanted_2.y, bias_of(kBias2)).values, limit,
                              plus_row(exact_2.y, bias_of(kBias2)).values),
          .gradients = {
              {.values = gradients.dx.values,
               .tolerance = tolerance({.roundings = 2, .factor = c.precision().factor}, c.dtype)},
              expected_sums(gradients.dgamma, c.dtype),
              c.norm.beta ? expected_sums(gradients.dbeta, c.dtype) : Expected{},
              kernel_gradient(wanted_1, exact_1),
              kernel_gradient(wanted_2, exact_2),
              c.bias ? expected_sums(column_sums(dz), parameters) : Expected{},
              c.bias ? expected_sums(column_sums(matrix_of(second.dy)), parameters) : Expected{}}};
}

Program make(const MlpCase& c, Random& random) {
  const DType parameters = parameter_dtype(c.dtype, *c.recipe);
  const std::int64_t hidden = c.shape.hidden;
  const std::int64_t wide = c.shape.intermediate * c.type.count();
  const LayerNormMLPOptions options{
      .norm_type = c.norm.type,
      .zero_centered_gamma = c.norm.zero_centered_gamma,
      .epsilon = c.norm.options().epsilon,
      .activation_type = c.type,
      .activation_params = kParams,
      .quantizer_sets = {make_quantizers(*c.recipe), make_quantizers(*c.recipe)},
      .remake_casts = c.remake_casts};
  const double kernel_scale = 1.0 / std::sqrt(static_cast<double>(hidden));
  Program program{.names = {"x", "gamma", "beta", "kernel_1", "kernel_2", "bias_1", "bias_2"},
                  .inputs = {random.spread(c.shape.batch.joined({hidden}), c.dtype),
                             random_gamma(hidden, parameters, random),
                             random_beta(c.norm, hidden, parameters, random),
                             random.uniform({hidden, wide}, parameters, -2.0 * kernel_scale,
                                            2.0 * kernel_scale),
                             random.values({c.shape.intermediate, hidden}, parameters),
                             c.bias ? random.values({wide}, parameters) : Tensor{},
                             c.bias ? random.values({hidden}, parameters) : Tensor{}},
                  .function = [options](std::span<const Variable> in) {
                    return layernorm_mlp(in[kX], in[kGamma], in[kBeta],
                                         {in[kKernel1], in[kKernel2]}, {in[kBias1], in[kBias2]},
                                         options);
                  }};
  if (c.recipe->quantizes()) {
    program.reference = [c, sets = options.quantizer_sets, inputs = program.inputs](
                            const Tensor& dy, std::vector<Comparison>& casts) {
      return reference(c, inputs, sets, dy, casts);
    };
  }
  return program;
}

void add(Subjects& subjects, const NormCase& norm, const ActivationType& type, bool bias,
         const MlpShape& shape, std::span<const RecipeCase> recipes, bool remake_casts = false) {
  for_each_precision(recipes, [&](DType dtype, const RecipeCase& recipe) {
    // What quantization does to the first half moves the second half's amax from pass to pass.
    if (recipe.without_headroom) return;
    const MlpCase c{dtype, &recipe, norm, type, bias, remake_casts, shape};
    subjects.push_back({.op = "layernorm_mlp",
                        .dtype = dtype,
                        .recipe = &recipe,
                        .variant = c.variant(),
                        .shape = sizes(shape.batch.joined({shape.hidden, shape.intermediate})),
                        .precision = c.precision(),
                        // Rounding may put a value on the other side of a limit, where the slope
                        // is another one.
                        .differences = !(type == clamped_swiglu),
                        .make = [c](Random& random) { return make(c, random); }});
  });
}

}  // namespace

void add_layernorm_mlp(Subjects& subjects) {
  const NormCase& plain = norm_types().front();
  for (const ActivationType& type : kActivations) {
    for (const MlpShape& shape : kShapes)
      add(subjects, plain, type, true, shape, forward_recipes());
  }
  for (const NormCase& norm : norm_cases()) {
    add(subjects, norm, swiglu, false, kVariedShape, forward_recipes());
  }
  add(subjects, plain, geglu, true, kVariedShape, quantized_recipes());
  add(subjects, plain, geglu, true, kVariedShape, quantized_recipes(), true);
}

}  // namespace tape8::tools::gradcheck
