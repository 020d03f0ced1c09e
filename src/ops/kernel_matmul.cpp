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

/// `transposed`: the operand is the transpose of the tensor as it was given. A columnwise NVFP4
/// cast lies transposed already.
GemmOperand gemm_operand(const QuantizedTensor& tensor, Usage usage, bool transposed) {
  const QuantizedPart& part = tensor.operand(usage);
  const bool flipped = usage == Usage::columnwise && is_nvfp4(part.scaling_mode);
  const bool in_blocks = is_block_scaled(part.scaling_mode);
  const Tensor& tensor_scale = in_blocks ? part.tensor_scale_inv : part.scale_inv;
  return {.data = part.data.data(),
          .dtype = part.data.dtype(),
          .transposed = transposed != flipped,
          .scaling_mode = part.scaling_mode,
          .scale_inv = static_cast<const ScaleInv*>(tensor_scale.data()),
          .block_scale_inv = in_blocks ? part.scale_inv.data() : nullptr,
          .hadamard = part.hadamard};
}

/// An axis after the Hadamard transform, whose last block is filled up with zeros.
std::int64_t transformed_size(std::int64_t size) {
  const std::int64_t along = scaling_block(ScalingMode::nvfp4_1d).along;
  return (size + along - 1) / along * along;
}

/// A cast, or with backward_override its values where backward contracts the other axis.
QuantizedTensor for_backward(const QuantizedTensor& cast, Usage usage) {
  return cast.has(usage) ? cast : QuantizedTensor(cast.dequantize());
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
                         const Variable& bias, int contracted, const MatmulNames& names) {
  check_given(op, names.x, x);
  check_compute_dtype(op, names.x, x.dtype());
  check_rank_at_least_1(op, names.x, x.shape());
  return check_matmul(op, x.shape(), x.tensor().device(), kernel, bias, contracted, names);
}

MatmulSizes check_matmul(const char* op, const Shape& x, const Device& device,
                         const Variable& kernel, const Variable& bias, int contracted,
                         const MatmulNames& names) {
  check_given(op, names.kernel, kernel);
  check_device(op, names.kernel, kernel.tensor(), device);
  check_compute_dtype(op, names.kernel, kernel.dtype());
  check_rank_at_least_1(op, names.kernel, kernel.shape());
  const int x_rank = x.rank();
  const int kernel_rank = kernel.shape().rank();
  if (contracted > x_rank || contracted > kernel_rank) {
    fail<ShapeError>("{}: {} and {} must have the {} contracted dimensions: got {} and {}", op,
                     names.x, names.kernel, contracted, to_string(x), to_string(kernel.shape()));
  }
  for (int i = 0; i < contracted; ++i) {
    const std::int64_t kernel_size = kernel.shape()[i];
    const std::int64_t x_size = x[x_rank - contracted + i];
    if (kernel_size != x_size) {
      fail<ShapeError>("{}: {}.shape[{}] (hidden_in) must equal {}.shape[{}]: got {} and {}", op,
                       names.kernel, i, names.x, i - contracted, kernel_size, x_size);
    }
  }
  const Shape hidden_out = kernel.shape().axes(contracted, kernel_rank);
  if (bias.defined()) {
    check_given(op, names.bias, bias);
    check_device(op, names.bias, bias.tensor(), device);
    check_compute_dtype(op, names.bias, bias.dtype());
    check_shape(op, names.bias, bias.shape(), "of the kernel's hidden_out", hidden_out);
  }
  return {.m = x.numel(0, x_rank - contracted),
          .n = hidden_out.numel(),
          .k = kernel.shape().numel(0, contracted),
          .contracted = contracted};
}

CastRequest x_cast_request(const MatmulSizes& sizes, const QuantizerSet& quantizer_set,
                           const MatmulNeeds& will_need) {
  const bool contracts_casts = quantizer_set.backward_override == BackwardOverride::none;
  const Quantizer& dgrad = quantizer_set.dgrad;
  return {.usages = {.rowwise = true, .columnwise = will_need.kernel && contracts_casts},
          .hadamard = dgrad && dgrad.state()->hadamard(),
          .flatten_axis = -sizes.contracted};
}

SavedMatmul prepare_matmul(const MatmulSizes& sizes, QuantizedTensor x, DType x_dtype,
                           const Variable& kernel, const Variable& bias,
                           const QuantizerSet& quantizer_set, const MatmulNeeds& will_need) {
  const bool contracts_casts = quantizer_set.backward_override == BackwardOverride::none;
  // Without rows nothing is multiplied: the kernel is not cast, and its scale stands.
  const Quantizer quantizer = sizes.m > 0 ? quantizer_set.kernel : Quantizer{};
  const Shape x_shape = x.shape();
  return {.sizes = sizes,
          .x = std::move(x),
          .kernel = cast_kernel(kernel, quantizer, x_dtype,
                                {.usages = {.rowwise = will_need.x && contracts_casts},
                                 .flatten_axis = sizes.contracted}),
          .kernel_lives_on = kernel.state()->weight_casts != nullptr,
          .x_shape = x_shape,
          .kernel_shape = kernel.shape(),
          .bias_shape = bias.defined() ? bias.shape() : Shape{},
          .x_dtype = x_dtype,
          .kernel_dtype = kernel.dtype(),
          .bias_dtype = bias.defined() ? bias.dtype() : DType::f32,
          .dgrad = contracts_casts ? quantizer_set.dgrad : Quantizer{}};
}

void keep_for_backward(SavedMatmul& saved, const QuantizerSet& quantizer_set, QuantizedTensor x,
                       const Variable& kernel, const MatmulNeeds& will_need) {
  if (!will_need.x && !will_need.kernel) {
    saved.x = saved.kernel = {};
    return;
  }
  switch (quantizer_set.backward_override) {
    case BackwardOverride::none:
      saved.x = saved.x.only(Usage::columnwise);
      saved.kernel = saved.kernel.only(Usage::rowwise);
      break;
    case BackwardOverride::dequantized:
      saved.x = saved.x.only(Usage::rowwise);
      saved.kernel = saved.kernel.only(Usage::columnwise);
      break;
    case BackwardOverride::high_precision:
      saved.x = std::move(x);
      saved.kernel = cast_kernel(kernel, {}, saved.x_dtype, {});
      break;
  }
  if (!will_need.kernel) saved.x = {};
  if (!will_need.x) saved.kernel = {};
}

Tensor matmul_forward(const SavedMatmul& saved, const Variable& bias, const Shape& y_shape) {
  const Tensor bias_values = stat_tensor(bias, saved.x_dtype);
  Tensor y = Tensor::empty(y_shape, saved.x_dtype, saved.x.rowwise().data.device());
  backend(y.device())
      .gemm({.m = saved.sizes.m,
             .n = saved.sizes.n,
             .k = saved.sizes.k,
             .a = gemm_operand(saved.x, Usage::rowwise, false),
             .b = gemm_operand(saved.kernel, Usage::columnwise, false),
             .bias = bias_values.data(),
             .d = output_to(y)});
  return y;
}

CastRequest dy_cast_request(const SavedMatmul& saved, const MatmulNeeds& needs) {
  return {
      .usages = {.rowwise = needs.x, .columnwise = needs.kernel},
      .hadamard = needs.kernel && saved.x.has(Usage::columnwise) && saved.x.columnwise().hadamard,
      .flatten_axis = saved.x_shape.rank() - saved.sizes.contracted};
}

MatmulGradients contract_dy(const SavedMatmul& saved, const QuantizedTensor& dy,
                            const MatmulNeeds& needs) {
  const MatmulSizes& sizes = saved.sizes;
  MatmulGradients gradients;
  if (needs.x) {
    const Device device = dy.rowwise().data.device();
    const QuantizedTensor kernel = for_backward(saved.kernel, Usage::rowwise);
    gradients.x = Tensor::empty(saved.x_shape, saved.x_dtype, device);
    backend(device).gemm({.m = sizes.m,
                          .n = sizes.k,
                          .k = sizes.n,
                          .a = gemm_operand(dy, Usage::rowwise, false),
                          .b = gemm_operand(kernel, Usage::rowwise, true),
                          .d = output_to(gradients.x)});
  }
  if (needs.kernel) {
    const Device device = dy.columnwise().data.device();
    const QuantizedTensor x = for_backward(saved.x, Usage::columnwise);
    // The matmul gives f64 where it reads f64, and only there.
    const bool has_f64 = saved.x_dtype == DType::f64 || saved.kernel_dtype == DType::f64;
    Tensor wgrad = Tensor::empty(saved.kernel_shape,
                                 has_f64 ? stat_dtype(saved.x_dtype) : saved.kernel_dtype, device);
    backend(device).gemm({.m = sizes.k,
                          .n = sizes.n,
                          .k = x.columnwise().hadamard ? transformed_size(sizes.m) : sizes.m,
                          .a = gemm_operand(x, Usage::columnwise, true),
                          .b = gemm_operand(dy, Usage::columnwise, false),
                          .d = output_to(wgrad)});
    gradients.kernel = converted(wgrad, saved.kernel_dtype);
  }
  return gradients;
}

MatmulGradients matmul_backward(const SavedMatmul& saved, const Tensor& dy,
                                const MatmulNeeds& needs) {
  Tensor dbias;
  if (needs.bias) dbias = Tensor::empty(saved.bias_shape, stat_dtype(saved.x_dtype), dy.device());
  const bool needs_operand = needs.x || needs.kernel;
  const QuantizedTensor operand =
      cast_tensor(dy, needs_operand ? saved.dgrad : Quantizer{}, dy.dtype(),
                  dy_cast_request(saved, needs), dbias.mutable_data())
          .tensor;
  MatmulGradients gradients = contract_dy(saved, operand, needs);
  if (needs.bias) gradients.bias = converted(dbias, saved.bias_dtype);
  return gradients;
}

}  // namespace tape8
