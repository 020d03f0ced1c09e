#include <algorithm>
#include <array>

#include "gradcheck/formulas.hpp"
#include "gradcheck/operands.hpp"
#include "gradcheck/ops.hpp"

namespace tape8::tools::gradcheck {
namespace {

/// [batch..., hidden] of y; 16, 32 and 128 do not divide the last.
const Shape kShape{3, 150};
/// Without quantization, where there are no blocks; and with, for one type of one part and of two.
const std::array kMoreShapes{Shape{19}, Shape{5, 17}, Shape{2, 3, 32}};
const Shape kLargeShape{300, 257};
constexpr std::array<std::string_view, 2> kStandIns{"gelu", "swiglu"};

/// A limit that values up to 2 lie on both sides of, and that is none of 16 bits.
constexpr ClampedSwigluParams kClamped{.limit = 1.37F, .alpha = 1.702F, .glu_linear_offset = 0.75F};
constexpr double kMost = 2.0;

struct ActivationCase {
  DType dtype = DType::f32;
  const RecipeCase* recipe = nullptr;
  ActivationType type = gelu;
  Shape shape;  // of x
};

ExpectedResults reference(const ActivationCase& c, const Tensor& input, const Quantizer& quantizer,
                          const Tensor& dy, std::vector<Comparison>& casts) {
  const Tensor x = c.recipe->casts_f32 ? input.to(DType::f32) : input;
  const Tensor y = activation(x, c.type, {}, {kClamped}).tensor();
  const Matrix exact_x = matrix_of(input);
  const Matrix exact = activation(c.type, kClamped, exact_x);
  const QuantizedTensor cast = quantizer.clone().quantize(y.reshape({exact.rows, exact.cols}));
  const Matrix decoded = checked_cast("cast of y", cast.rowwise(), Usage::rowwise, exact,
                                      c.recipe->forward, false, casts);
  const Matrix dx = activation_gradient(c.type, kClamped, exact_x,
                                        {exact.rows, exact.cols, dy.to_vector<double>()});
  return {.output = quantized(decoded.values, tolerance({}, c.dtype), exact.values),
          .gradients = {{.values = dx.values, .tolerance = tolerance({}, c.dtype)}}};
}

Program make(const ActivationCase& c, Random& random) {
  const Quantizer quantizer = make_quantizers(*c.recipe).x;
  Program program{.names = {"x"},
                  .inputs = {random.values(c.shape, c.dtype, kMost, double{kClamped.limit})},
                  .function = [c, quantizer](std::span<const Variable> in) {
                    return activation(in[0], c.type, quantizer, {kClamped});
                  }};
  if (c.recipe->quantizes()) {
    program.reference = [c, quantizer, x = program.inputs[0]](const Tensor& dy,
                                                              std::vector<Comparison>& casts) {
      return reference(c, x, quantizer, dy, casts);
    };
  }
  return program;
}

void add(Subjects& subjects, std::string_view name, const Shape& y_shape,
         std::span<const RecipeCase> recipes, bool large = false) {
  const ActivationType type = activation_type_from(name);
  const Shape x_shape = y_shape.axes(0, y_shape.rank() - 1).joined({type.count() * y_shape[-1]});
  for_each_precision(recipes, [&](DType dtype, const RecipeCase& recipe) {
    if (large && !stands_for_large(dtype)) return;
    const ActivationCase c{dtype, &recipe, type, x_shape};
    subjects.push_back({.op = "activation",
                        .dtype = dtype,
                        .recipe = &recipe,
                        .variant = std::string(name),
                        .shape = sizes(x_shape),
                        .differences = !large,
                        .make = [c](Random& random) { return make(c, random); }});
  });
}

}  // namespace

void add_activation(Subjects& subjects) {
  for (const std::string_view name : activation_names()) {
    add(subjects, name, kShape, forward_recipes());
    const bool stands_in = std::find(kStandIns.begin(), kStandIns.end(), name) != kStandIns.end();
    for (const Shape& shape : kMoreShapes) {
      add(subjects, name, shape, stands_in ? forward_recipes() : std::span<const RecipeCase>{});
    }
  }
  for (const std::string_view name : kStandIns) {
    add(subjects, name, kLargeShape, forward_recipes(), true);
  }
}

}  // namespace tape8::tools::gradcheck
