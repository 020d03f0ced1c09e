#include <utility>

#include <fmt/ranges.h>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/dense.hpp>

#include "autograd/tape_impl.hpp"
#include "core/fail.hpp"
#include "ops/checks.hpp"
#include "ops/kernel_matmul.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "dense";
enum Argument : int { kX, kKernel, kBias };

/// How many axes are contracted: the last of x and as many first ones of the kernel, in order.
int contracted_axes(const ContractingDims& dims, int x_rank, int kernel_rank) {
  const int count = static_cast<int>(dims.x.size());
  bool in_order = count >= 1 && dims.kernel.size() == dims.x.size();
  for (int i = 0; in_order && i < count; ++i) {
    const int x_axis = dims.x[static_cast<std::size_t>(i)];
    const int kernel_axis = dims.kernel[static_cast<std::size_t>(i)];
    in_order = (x_axis < 0 ? x_axis + x_rank : x_axis) == x_rank - count + i &&
               (kernel_axis < 0 ? kernel_axis + kernel_rank : kernel_axis) == i;
  }
  if (!in_order) {
    fail<OptionError>(
        "dense: contracting_dims must be the last axes of x and the first of kernel, in order: got "
        "({}) and ({})",
        fmt::join(dims.x, ", "), fmt::join(dims.kernel, ", "));
  }
  return count;
}

}  // namespace

Variable dense(const Variable& x, const Variable& kernel, const Variable& bias,
               const DenseOptions& options) {
  check_given(kOp, "x", x);
  check_given(kOp, "kernel", kernel);
  check_rank_at_least_1(kOp, "x", x.shape());
  check_rank_at_least_1(kOp, "kernel", kernel.shape());
  const int contracted =
      contracted_axes(options.contracting_dims, x.shape().rank(), kernel.shape().rank());
  const MatmulSizes sizes = check_matmul(kOp, x, kernel, bias, contracted);
  check_quantizable(kOp, x.dtype(), options.quantizer_set);
  const Shape y_shape = x.shape()
                            .axes(0, x.shape().rank() - contracted)
                            .joined(kernel.shape().axes(contracted, kernel.shape().rank()));
  check_axes(kOp, "input_axes", options.input_axes, x.shape().rank());
  check_axes(kOp, "kernel_axes", options.kernel_axes, kernel.shape().rank());
  check_axes(kOp, "output_axes", options.output_axes, y_shape.rank());

  const QuantizerSet& set = options.quantizer_set;
  const MatmulNeeds will_need{gradient_wanted(x), gradient_wanted(kernel)};
  const Tensor x_values = x.tensor().contiguous();
  QuantizedTensor x_operand =
      cast_tensor(x_values, set.x, x.dtype(), x_cast_request(sizes, set, will_need)).tensor;
  SavedMatmul saved =
      prepare_matmul(sizes, std::move(x_operand), x.dtype(), kernel, bias, set, will_need);
  Tensor y = matmul_forward(saved, bias, y_shape);
  keep_for_backward(saved, set, QuantizedTensor(x_values), kernel, will_need);

  return record(kOp, {x, kernel, bias}, std::move(y), std::move(saved),
                [](const SavedMatmul& matmul, Gradients& gradients) {
                  MatmulGradients made = matmul_backward(
                      matmul, gradients.output(),
                      {gradients.needs(kX), gradients.needs(kKernel), gradients.needs(kBias)});
                  if (gradients.needs(kX)) gradients.set(kX, std::move(made.x));
                  if (gradients.needs(kKernel)) gradients.set(kKernel, std::move(made.kernel));
                  if (gradients.needs(kBias)) gradients.set(kBias, std::move(made.bias));
                });
}

}  // namespace tape8
