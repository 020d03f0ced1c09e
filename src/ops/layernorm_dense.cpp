#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/layernorm_dense.hpp>

#include "autograd/tape_impl.hpp"
#include "ops/checks.hpp"
#include "ops/kernel_matmul.hpp"
#include "ops/norm.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "layernorm_dense";
enum Argument : int { kX, kKernel, kGamma, kBeta, kBias };

struct Saved {
  SavedNorm norm;
  SavedMatmul matmul;  // of the norm's output; its x is none if the norm runs again

  void visit(SavedVisitor& visitor) const {
    norm.visit(visitor);
    matmul.visit(visitor);
  }
};

void backward(const Saved& saved, Gradients& gradients) {
  const NormNeeds norm_needs{gradients.needs(kX), gradients.needs(kGamma), gradients.needs(kBeta)};
  const MatmulNeeds needs{norm_needs.any(), gradients.needs(kKernel), gradients.needs(kBias)};
  SavedMatmul operands = saved.matmul;
  if (saved.norm.runs_again && needs.kernel) {
    Tensor z = Tensor::empty(saved.norm.x.shape(), saved.norm.x.dtype(), saved.norm.x.device());
    norm_again(saved.norm, output_to(z));
    operands.x = QuantizedTensor(std::move(z));
  }
  MatmulGradients matmul = matmul_backward(operands, gradients.output(), needs);
  if (needs.kernel) gradients.set(kKernel, std::move(matmul.kernel));
  if (needs.bias) gradients.set(kBias, std::move(matmul.bias));
  if (!norm_needs.any()) return;
  NormGradients norm = norm_backward(saved.norm, matmul.x, norm_needs);
  if (norm_needs.x) gradients.set(kX, std::move(norm.x));
  if (norm_needs.gamma) gradients.set(kGamma, std::move(norm.gamma));
  if (norm_needs.beta) gradients.set(kBeta, std::move(norm.beta));
}

}  // namespace

Variable layernorm_dense(const Variable& x, const Variable& kernel, const Variable& gamma,
                         const Variable& beta, const Variable& bias,
                         const LayerNormDenseOptions& options) {
  const MatmulSizes sizes = check_matmul(kOp, x, kernel, bias);
  const NormOptions norm{options.norm_type, options.zero_centered_gamma, options.epsilon};
  check_norm(kOp, x, gamma, beta, norm);
  const QuantizerSet& set = options.quantizer_set;
  check_quantizable(kOp, x.dtype(), set);
  check_axes(kOp, "layernorm_input_axes", options.layernorm_input_axes, x.shape().rank());
  check_axes(kOp, "dot_input_axes", options.dot_input_axes, x.shape().rank());
  check_axes(kOp, "kernel_axes", options.kernel_axes, kernel.shape().rank());

  const MatmulNeeds will_need{gradient_wanted(x) || gradient_wanted(gamma) || gradient_wanted(beta),
                              gradient_wanted(kernel)};
  Saved saved{.norm = prepare_norm(x, gamma, beta, norm)};
  CastTarget target(set.x, x.shape(), x.dtype(), saved.norm.x.device(),
                    x_cast_request(sizes, set, will_need));
  norm_forward(saved.norm, target.output());
  saved.matmul = prepare_matmul(sizes, target.finish(), x.dtype(), kernel, bias, set, will_need);
  const Shape y_shape =
      x.shape().axes(0, x.shape().rank() - 1).joined(kernel.shape().axes(1, kernel.shape().rank()));
  Tensor y = matmul_forward(saved.matmul, bias, y_shape);
  keep_for_backward(saved.matmul, set, QuantizedTensor{}, kernel, will_need);
  saved.norm.runs_again = set.backward_override == BackwardOverride::high_precision;
  return record(kOp, {x, kernel, gamma, beta, bias}, std::move(y), std::move(saved), backward);
}

}  // namespace tape8
