#include <array>
#include <utility>

#include <fmt/format.h>

#include "gradcheck/ops.hpp"

namespace tape8::tools::gradcheck {
namespace {

constexpr std::array kDTypes{DType::f64, DType::f32, DType::bf16, DType::f16};

/// A function of tensors of one dtype, in each dtype.
struct PlainOp {
  std::string op;
  std::string variant = {};
  std::vector<std::string> names;
  std::vector<Shape> shapes;  ///< of the inputs
  CheckedFunction function;
  bool large = false;
};

void add(Subjects& subjects, const PlainOp& op) {
  std::string shape;
  for (const Shape& input : op.shapes) {
    if (input != op.shapes.front()) shape += fmt::format("_{}", sizes(input));
    if (shape.empty()) shape = sizes(input);
  }
  for (const DType dtype : kDTypes) {
    subjects.push_back({.op = op.op,
                        .dtype = dtype,
                        .variant = op.variant,
                        .shape = shape,
                        .differences = !op.large,
                        .make = [op, dtype](Random& random) {
                          Program program{.names = op.names, .inputs = {}, .function = op.function};
                          for (const Shape& input : op.shapes) {
                            program.inputs.push_back(random.values(input, dtype));
                          }
                          return program;
                        }});
  }
}

const std::array kShapes{Shape{1}, Shape{19}, Shape{5, 17}, Shape{2, 3, 32}};
const Shape kLargeShape{300, 257};

void add_binary(Subjects& subjects, const std::string& op, const CheckedFunction& function) {
  const auto add_shape = [&](const Shape& shape, bool large) {
    add(subjects, {.op = op,
                   .names = {"a", "b"},
                   .shapes = {shape, shape},
                   .function = function,
                   .large = large});
  };
  for (const Shape& shape : kShapes) add_shape(shape, false);
  add_shape(kLargeShape, true);
}

void add_unary(Subjects& subjects, const std::string& op, const std::string& variant,
               const CheckedFunction& function, std::span<const Shape> shapes = kShapes) {
  const auto add_shape = [&](const Shape& shape, bool large) {
    add(subjects, {.op = op,
                   .variant = variant,
                   .names = {"x"},
                   .shapes = {shape},
                   .function = function,
                   .large = large});
  };
  for (const Shape& shape : shapes) add_shape(shape, false);
  add_shape(kLargeShape, true);
}

/// Rounding has no slope: the values themselves are the reference.
void add_cast(Subjects& subjects, DType from, DType to, const Shape& shape) {
  subjects.push_back(
      {.op = "cast",
       .dtype = from,
       .variant = fmt::format("to_{}", to_string(to)),
       .shape = sizes(shape),
       .make = [=](Random& random) {
         const Tensor x = random.values(shape, from);
         return Program{.names = {"x"},
                        .inputs = {x},
                        .function = [to](std::span<const Variable> in) { return cast(in[0], to); },
                        .reference =
                            [=](const Tensor& dy, std::vector<Comparison>&) {
                              return ExpectedResults{
                                  .output = {.values = x.to_vector<double>()},
                                  .gradients = {{.values = dy.to_vector<double>()}}};
                            }};
       }});
}

}  // namespace

void add_matmul(Subjects& subjects) {
  const std::array<std::pair<Shape, Shape>, 7> kSizes{{{{1, 16}, {16, 32}},
                                                       {{33, 17}, {17, 9}},
                                                       {{4, 5}, {5, 1}},
                                                       {{2, 3, 24}, {24, 10}},
                                                       {{2, 3, 24}, {2, 24, 10}},
                                                       {{5, 130}, {130, 12}},
                                                       {{150, 260}, {260, 140}}}};
  for (const auto& [a, b] : kSizes) {
    add(subjects, {.op = "matmul",
                   .names = {"a", "b"},
                   .shapes = {a, b},
                   .function = [](std::span<const Variable> in) { return matmul(in[0], in[1]); },
                   .large = a.numel() > 10000});
  }
}

void add_elementwise(Subjects& subjects) {
  add_binary(subjects, "add", [](std::span<const Variable> in) { return add(in[0], in[1]); });
  add_binary(subjects, "sub", [](std::span<const Variable> in) { return sub(in[0], in[1]); });
  add_binary(subjects, "mul", [](std::span<const Variable> in) { return mul(in[0], in[1]); });
  for (const double factor : {-0.75, 3.1}) {
    add_unary(subjects, "scale", fmt::format("{}", factor),
              [factor](std::span<const Variable> in) { return scale(in[0], factor); });
  }
  for (const float rate : {0.0F, 0.4F}) {
    const CheckedFunction function = [rate](std::span<const Variable> in) {
      Rng rng{11};  // the same elements each time
      return dropout(in[0], rate, rng);
    };
    // Of one element nothing may be left.
    add_unary(subjects, "dropout", fmt::format("{}", rate), function,
              std::span(kShapes).subspan(1));
  }
  for (const DType from : kDTypes) {
    for (const DType to : kDTypes) {
      for (const Shape& shape : kShapes) add_cast(subjects, from, to, shape);
    }
  }
}

void add_forms(Subjects& subjects) {
  for (const Shape& shape : kShapes) {
    const std::string name = fmt::format("to_{}", shape.numel());
    add(subjects, {.op = "reshape",
                   .variant = name,
                   .names = {"x"},
                   .shapes = {shape},
                   .function = [flat = Shape{shape.numel()}](std::span<const Variable> in) {
                     return reshape(in[0], flat);
                   }});
    if (shape.rank() > 1) {
      add(subjects,
          {.op = "transpose",
           .variant = "0_-1",
           .names = {"x"},
           .shapes = {shape},
           .function = [](std::span<const Variable> in) { return transpose(in[0], 0, -1); }});
    }
  }
  add_unary(subjects, "sum", "all", [](std::span<const Variable> in) { return sum(in[0]); });
  add_unary(subjects, "mean", "all", [](std::span<const Variable> in) { return mean(in[0]); });
  for (const int axis : {0, -1}) {
    const std::string variant = fmt::format("axis_{}", axis);
    add_unary(subjects, "sum", variant,
              [axis](std::span<const Variable> in) { return sum(in[0], axis); });
    add_unary(subjects, "mean", variant,
              [axis](std::span<const Variable> in) { return mean(in[0], axis); });
  }
}

}  // namespace tape8::tools::gradcheck
