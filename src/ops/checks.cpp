#include "ops/checks.hpp"

#include "autograd/tape_impl.hpp"
#include "core/fail.hpp"
#include "quantize/cast.hpp"
#include "quantize/quantizer_state.hpp"

namespace tape8 {

void check_given(std::string_view op, std::string_view name, const Variable& variable) {
  if (!variable.defined()) fail<OptionError>("{}: {} must be given: got none", op, name);
  check_on_current_tape(op, name, variable);
}

void check_device(std::string_view op, std::string_view name, const Tensor& tensor,
                  const Device& wanted) {
  if (tensor.device() != wanted) {
    fail<OptionError>("{}: {} must be on the device of the first operand, {}: got {}", op, name,
                      to_string(wanted), to_string(tensor.device()));
  }
}

void check_compute_dtype(std::string_view op, std::string_view name, DType dtype) {
  if (!is_compute(dtype)) {
    fail<DTypeError>("{}: {} must be f64, f32, bf16 or f16: got {}", op, name, to_string(dtype));
  }
}

void check_quantizable(std::string_view op, DType dtype, const Quantizer& quantizer) {
  if (dtype == DType::f64 && quantizer) {
    fail<DTypeError>("{}: a quantizer needs x in f32, bf16 or f16: got f64", op);
  }
}

void check_quantizable(std::string_view op, DType dtype, const QuantizerSet& set,
                       std::string_view name) {
  check_quantizable(op, dtype, set.x);
  check_quantizable(op, dtype, set.kernel);
  check_quantizable(op, dtype, set.dgrad);
  const auto both_e5m2 = [](const Quantizer& a, const Quantizer& b) {
    return a && b && a.dtype() == DType::e5m2 && b.dtype() == DType::e5m2;
  };
  if (both_e5m2(set.x, set.kernel) || both_e5m2(set.x, set.dgrad) ||
      both_e5m2(set.kernel, set.dgrad)) {
    fail<OptionError>("{}: {} must not cast two operands of a matmul to e5m2: got two", op, name);
  }
  // What wgrad contracts is transformed in both operands or in neither.
  if (set.x && set.dgrad && set.x.state()->hadamard() != set.dgrad.state()->hadamard()) {
    fail<OptionError>(
        "{}: {}'s x and dgrad must both use the Hadamard transform or neither: got {} and {}", op,
        name, set.x.state()->hadamard(), set.dgrad.state()->hadamard());
  }
}

void check_rank_at_least_1(std::string_view op, std::string_view name, const Shape& shape) {
  if (shape.rank() < 1) fail<ShapeError>("{}: {} must have a dimension: got a scalar", op, name);
}

void check_shape(std::string_view op, std::string_view name, const Shape& shape,
                 std::string_view rule, const Shape& wanted) {
  if (shape != wanted) {
    fail<ShapeError>("{}: {} must have the shape {} {}: got {}", op, name, rule, to_string(wanted),
                     to_string(shape));
  }
}

void check_dtype(std::string_view op, std::string_view name, DType dtype, std::string_view rule,
                 DType wanted) {
  if (dtype != wanted) {
    fail<DTypeError>("{}: {} must have the dtype {}, {}: got {}", op, name, rule, to_string(wanted),
                     to_string(dtype));
  }
}

void check_axes(std::string_view op, std::string_view name, const Axes& axes, int rank) {
  if (!axes.empty() && static_cast<int>(axes.size()) != rank) {
    fail<OptionError>("{}: {} must be empty or name {} dimensions: got {}", op, name, rank,
                      axes.size());
  }
}

int checked_axis(std::string_view op, const Shape& x, int axis) {
  const int index = axis < 0 ? axis + x.rank() : axis;
  if (index < 0 || index >= x.rank()) {
    fail<ShapeError>("{}: axis must lie within x's {} dimensions: got {}", op, x.rank(), axis);
  }
  return index;
}

Tensor stat_tensor(const Variable& variable, DType x) {
  return variable.defined() ? converted(variable.tensor(), stat_dtype(x)).contiguous() : Tensor{};
}

}  // namespace tape8
