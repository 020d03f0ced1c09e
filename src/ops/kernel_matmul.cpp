#include "ops/kernel_matmul.hpp"

#include <utility>

#include "autograd/variable_state.hpp"
#include "autograd/weight_casts.hpp"
#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "ops/checks.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

GemmOperand gemm_operand(const QuantizedPart& part, bool transposed) {
  return {.data = part.data.data(),
          .dtype = part.data.dtype(),
          .transposed = transposed,
          .scaling_mode = part.scaling_mode,
          .scale_inv = static_cast<const ScaleInv*>(part.scale_inv.data())};
}

}  // namespace

void SavedMatmul::visit(SavedVisitor& visitor) const {
  visitor("x", x);
  if (kernel_lives_on) {
    visitor.borrowed("kernel", kernel);
  } else {
    visitor("kernel", kernel);
  }
}

MatmulSizes check_matmul(const char* op, const Variable& x, const Variable& kernel,
                         const Variable& bias, int contracted) {
  check_given(op, "x", x);
  check_given(op, "kernel", kernel);
  check_device(op, "kernel", kernel.tensor(), x.tensor().device());
  check_compute_dtype(op, "x", x.dtype());
  check_compute_dtype(op, "kernel", kernel.dtype());
  check_rank_at_least_1(op, "x", x.shape());
  check_rank_at_least_1(op, "kernel", kernel.shape());
  const int x_rank = x.shape().rank();
  const int kernel_rank = kernel.shape().rank();
  if (contracted > x_rank || contracted > kernel_rank) {
    fail<ShapeError>("{}: x and kernel must have the {} contracted dimensions: got {} and {}", op,
                     contracted, to_string(x.shape()), to_string(kernel.shape()));
  }
  for (int i = 0; i < contracted; ++i) {
    const std::int64_t kernel_size = kernel.shape()[i];
    const std::int64_t x_size = x.shape()[x_rank - contracted + i];
    if (kernel_size != x_size) {
      fail<ShapeError>("{}: kernel.shape[{}] (hidden_in) must equal x.shape[{}]: got {} and {}", op,
                       i, i - contracted, kernel_size, x_size);
    }
  }
  const Shape hidden_out = kernel.shape().axes(contracted, kernel_rank);
  if (bias.defined()) {
    check_given(op, "bias", bias);
    check_device(op, "bias", bias.tensor(), x.tensor().device());
    check_compute_dtype(op, "bias", bias.dtype());
    check_shape(op, "bias", bias.shape(), "of the kernel's hidden_out", hidden_out);
  }
  return {.m = x.shape().numel(0, x_rank - contracted),
          .n = hidden_out.numel(),
          .k = kernel.shape().numel(0, contracted)};
}

void keep_high_precision(SavedMatmul& saved, QuantizedTensor x, const Variable& kernel) {
  saved.x = std::move(x);
  saved.kernel = cast_kernel(kernel, {}, saved.x_dtype);
}

SavedMatmul prepare_matmul(const MatmulSizes& sizes, const Variable& x, QuantizedTensor x_operand,
                           const Variable& kernel, const Variable& bias,
                           const QuantizerSet& quantizer_set) {
  const bool casts_dy = quantizer_set.backward_override == BackwardOverride::none;
  return {
      .sizes = sizes,
      .x = std::move(x_operand),
      // Without rows nothing is multiplied: the kernel is not cast, and its scale stands.
      .kernel = cast_kernel(kernel, sizes.m > 0 ? quantizer_set.kernel : Quantizer{}, x.dtype()),
      .kernel_lives_on = kernel.state()->weight_casts != nullptr,
      .x_shape = x.shape(),
      .kernel_shape = kernel.shape(),
      .bias_shape = bias.defined() ? bias.shape() : Shape{},
      .x_dtype = x.dtype(),
      .kernel_dtype = kernel.dtype(),
      .bias_dtype = bias.defined() ? bias.dtype() : DType::f32,
      .dgrad = casts_dy ? quantizer_set.dgrad : Quantizer{}};
}

Tensor matmul_forward(const SavedMatmul& saved, const Variable& bias, const Shape& y_shape) {
  const Tensor bias_values = stat_tensor(bias, saved.x_dtype);
  Tensor y = Tensor::empty(y_shape, saved.x_dtype, saved.x.rowwise().data.device());
  backend(y.device())
      .gemm({.m = saved.sizes.m,
             .n = saved.sizes.n,
             .k = saved.sizes.k,
             .a = gemm_operand(saved.x.rowwise(), false),
             .b = gemm_operand(saved.kernel.columnwise(), false),
             .bias = bias_values.data(),
             .d = output_to(y)});
  return y;
}

MatmulGradients matmul_backward(const SavedMatmul& saved, const Tensor& dy,
                                const MatmulNeeds& needs) {
  const MatmulSizes& sizes = saved.sizes;
  Backend& kernels = backend(dy.device());
  MatmulGradients gradients;

  const bool needs_operand = needs.x || needs.kernel;
  Tensor dbias;
  if (needs.bias) dbias = Tensor::empty(saved.bias_shape, stat_dtype(saved.x_dtype), dy.device());
  const QuantizedTensor dy_operand =
      cast_tensor(dy, needs_operand ? saved.dgrad : Quantizer{}, dy.dtype(),
                  {.rows = sizes.m, .cols = sizes.n, .dbias = dbias.mutable_data()})
          .tensor;
  if (needs.bias) gradients.bias = dbias.to(saved.bias_dtype);

  if (needs.x) {
    gradients.x = Tensor::empty(saved.x_shape, saved.x_dtype, dy.device());
    kernels.gemm({.m = sizes.m,
                  .n = sizes.k,
                  .k = sizes.n,
                  .a = gemm_operand(dy_operand.rowwise(), false),
                  .b = gemm_operand(saved.kernel.rowwise(), true),
                  .d = output_to(gradients.x)});
  }
  if (needs.kernel) {
    // The matmul gives f64 where it reads f64, and only there.
    const bool has_f64 = saved.x_dtype == DType::f64 || saved.kernel_dtype == DType::f64;
    Tensor wgrad = Tensor::empty(
        saved.kernel_shape, has_f64 ? stat_dtype(saved.x_dtype) : saved.kernel_dtype, dy.device());
    kernels.gemm({.m = sizes.k,
                  .n = sizes.n,
                  .k = sizes.m,
                  .a = gemm_operand(saved.x.columnwise(), true),
                  .b = gemm_operand(dy_operand.columnwise(), false),
                  .d = output_to(wgrad)});
    gradients.kernel = wgrad.to(saved.kernel_dtype);
  }
  return gradients;
}

}  // namespace tape8
