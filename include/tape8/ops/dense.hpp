#pragma once

#include <vector>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>
#include <tape8/ops/axes.hpp>
#include <tape8/quantize/quantizer.hpp>

namespace tape8 {

/// The axes that a matmul sums over: the last ones of x and the first ones of the kernel, in order.
/// Negative axes count from the end.
struct ContractingDims {
  std::vector<int> x = {-1};
  std::vector<int> kernel = {0};
};

struct DenseOptions {
  ContractingDims contracting_dims = {};
  bool transpose_batch_sequence =
      false;  ///< x is [seq, batch, hidden]; for sharding, moves no data
  Axes input_axes = {};
  Axes kernel_axes = {};
  Axes output_axes = {};
  QuantizerSet quantizer_set = {};  ///< {}: high precision throughout
};

/// y = x * kernel + bias. Differentiable in x, kernel and bias.
///
/// x: [batch..., hidden_in] in f64, f32, bf16 or f16 (f64 without quantizers); kernel: [hidden_in,
/// hidden_out...]; bias: [hidden_out...] or none; y: [batch..., hidden_out...] in x's dtype. kernel
/// and bias may have any float dtype: the kernel is cast by its quantizer or else converted to x's
/// dtype, the bias is added in f32. fprop contracts x (rowwise) with the kernel (columnwise), dgrad
/// dy with the kernel (rowwise), wgrad x with dy (both columnwise); the bias gradient is summed in
/// f32 from dy before its cast. Each gradient has its input's dtype. Backward keeps x and the
/// kernel as they were used: in FP8 where they were quantized.
///
/// Throws ShapeError, DTypeError; OptionError for axes whose number is not the tensor's rank.
TAPE8_API Variable dense(const Variable& x, const Variable& kernel, const Variable& bias = {},
                         const DenseOptions& options = {});

}  // namespace tape8
