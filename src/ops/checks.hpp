#pragma once

#include <string_view>

#include <tape8/autograd/variable.hpp>
#include <tape8/ops/axes.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "backend/backend.hpp"

namespace tape8 {

// Checks of the arguments of ops; each throws an Error that reads "op: rule: what was got".

/// Not none, nor the result of an op on another tape.
void check_given(std::string_view op, std::string_view name, const Variable& variable);
/// All operands of an op lie where its first one does.
void check_device(std::string_view op, std::string_view name, const Tensor& tensor,
                  const Device& wanted);
/// f64, f32, bf16 or f16.
void check_compute_dtype(std::string_view op, std::string_view name, DType dtype);
/// f64 is not quantized.
void check_quantizable(std::string_view op, DType dtype, const Quantizer& quantizer);
void check_quantizable(std::string_view op, DType dtype, const QuantizerSet& set,
                       std::string_view name = "quantizer_set");
void check_rank_at_least_1(std::string_view op, std::string_view name, const Shape& shape);
void check_shape(std::string_view op, std::string_view name, const Shape& shape,
                 std::string_view rule, const Shape& wanted);
/// One dtype for two operands.
void check_dtype(std::string_view op, std::string_view name, DType dtype, std::string_view rule,
                 DType wanted);
void check_axes(std::string_view op, std::string_view name, const Axes& axes, int rank);
/// The index of one of x's axes, of which a negative one counts from the end.
int checked_axis(std::string_view op, const Shape& x, int axis);

/// The type of statistics and affine parameters beside an x of that dtype.
inline DType stat_dtype(DType x) { return x == DType::f64 ? DType::f64 : DType::f32; }

/// An affine parameter (gamma, beta, bias) as kernels take it; undefined for none.
Tensor stat_tensor(const Variable& variable, DType x);

inline Input input_of(const Tensor& tensor) {
  return {.data = tensor.data(), .dtype = tensor.dtype()};
}
inline Output output_to(Tensor& tensor) {
  return {.data = tensor.mutable_data(), .dtype = tensor.dtype()};
}

}  // namespace tape8
