#pragma once

#include <cstdint>

#include <tape8/autograd/tape.hpp>
#include <tape8/autograd/variable.hpp>
#include <tape8/quantize/quantized_tensor.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "quantize/cast_request.hpp"

namespace tape8 {

/// x [m, k] times kernel [k, n]: m rows of the batch, k = hidden_in, n = hidden_out.
struct MatmulSizes {
  std::int64_t m = 0, n = 0, k = 0;
  int contracted = 1;  // the last axes of x, the first of the kernel
};

/// What the backward of y = x * kernel + bias needs.
struct SavedMatmul {
  MatmulSizes sizes;
  QuantizedTensor x;
  QuantizedTensor kernel;
  bool kernel_lives_on = false;  // with the parameter that keeps its casts
  Shape x_shape, kernel_shape, bias_shape;
  DType x_dtype = DType::f32, kernel_dtype = DType::f32, bias_dtype = DType::f32;
  Quantizer dgrad;

  void visit(SavedVisitor& visitor) const;
};

/// The gradients of x, kernel and bias that are wanted; the others are undefined. x's is in x's
/// dtype.
struct MatmulGradients {
  Tensor x, kernel, bias;
};
struct MatmulNeeds {
  bool x = false, kernel = false, bias = false;
  bool any() const { return x || kernel || bias; }
};

/// How an op calls a matmul's arguments.
struct MatmulNames {
  const char* x = "x";
  const char* kernel = "kernel";
  const char* bias = "bias";
};

/// Checks x, kernel and bias against each other, where the last `contracted` axes of x meet the
/// first of the kernel; `op` names the caller in errors.
MatmulSizes check_matmul(const char* op, const Variable& x, const Variable& kernel,
                         const Variable& bias, int contracted = 1, const MatmulNames& names = {});
/// The same for an x of that shape, which the op is still to compute.
MatmulSizes check_matmul(const char* op, const Shape& x, const Device& device,
                         const Variable& kernel, const Variable& bias, int contracted,
                         const MatmulNames& names);

/// How x, or what becomes of it, is to be cast for the matmul and its backward.
CastRequest x_cast_request(const MatmulSizes& sizes, const QuantizerSet& quantizer_set,
                           const MatmulNeeds& will_need);

/// Casts the kernel and describes the matmul of x, an operand in place of a tensor in `x_dtype`;
/// `will_need` are the gradients that backward will be asked for.
SavedMatmul prepare_matmul(const MatmulSizes& sizes, QuantizedTensor x, DType x_dtype,
                           const Variable& kernel, const Variable& bias,
                           const QuantizerSet& quantizer_set, const MatmulNeeds& will_need);

/// fprop: y = x * kernel + bias, [batch..., hidden_out...] in x's dtype.
Tensor matmul_forward(const SavedMatmul& saved, const Variable& bias, const Shape& y_shape);

/// After the forward: forgets what backward will not contract, and for backward_override
/// high_precision keeps `x` (none: it is computed again) and the kernel instead of the casts.
void keep_for_backward(SavedMatmul& saved, const QuantizerSet& quantizer_set, QuantizedTensor x,
                       const Variable& kernel, const MatmulNeeds& will_need);

/// How dy is to be cast for the gradients of x and kernel that are wanted.
CastRequest dy_cast_request(const SavedMatmul& saved, const MatmulNeeds& needs);
/// dgrad and wgrad of a dy that has been cast so. x's gradient has x_shape.
MatmulGradients contract_dy(const SavedMatmul& saved, const QuantizedTensor& dy,
                            const MatmulNeeds& needs);
/// dgrad, wgrad and dbias; dy is cast once, in the pass that sums dbias.
MatmulGradients matmul_backward(const SavedMatmul& saved, const Tensor& dy,
                                const MatmulNeeds& needs);

}  // namespace tape8
