#include <cmath>
#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/layernorm_dense.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "ops/checks.hpp"
#include "ops/kernel_matmul.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "layernorm_dense";
enum Argument : int { kX, kKernel, kGamma, kBeta, kBias };

struct Saved {
  SavedMatmul matmul;  // of the norm's output; x is none if that is to be computed again
  Tensor x, gamma, beta, mu, rsigma;
  NormType norm_type = NormType::layernorm;
  bool zero_centered_gamma = false;
  float epsilon = 0.0F;
  DType gamma_dtype = DType::f32, beta_dtype = DType::f32;

  void visit(SavedVisitor& visitor) const {
    matmul.visit(visitor);
    visitor("x", x);
    visitor.borrowed("gamma", gamma);
    if (!matmul.x.defined()) visitor.borrowed("beta", beta);  // the norm is computed again
    visitor("mu", mu);
    visitor("rsigma", rsigma);
  }
};

void check_arguments(const Variable& x, const Variable& kernel, const Variable& gamma,
                     const Variable& beta, const LayerNormDenseOptions& options) {
  check_given(kOp, "gamma", gamma);
  check_compute_dtype(kOp, "gamma", gamma.dtype());
  const Shape hidden_in{x.shape()[-1]};
  check_shape(kOp, "gamma", gamma.shape(), "of x's hidden_in", hidden_in);
  if (beta.defined()) {
    if (options.norm_type == NormType::rmsnorm) {
      fail<OptionError>("layernorm_dense: beta must be none for rmsnorm: got shape {}",
                        to_string(beta.shape()));
    }
    check_compute_dtype(kOp, "beta", beta.dtype());
    check_shape(kOp, "beta", beta.shape(), "of x's hidden_in", hidden_in);
  }
  if (!(options.epsilon >= 0.0F) || !std::isfinite(options.epsilon)) {
    fail<OptionError>("layernorm_dense: epsilon must be finite and at least 0: got {}",
                      options.epsilon);
  }
  check_quantizable(kOp, x.dtype(), options.quantizer_set);
  check_axes(kOp, "layernorm_input_axes", options.layernorm_input_axes, x.shape().rank());
  check_axes(kOp, "dot_input_axes", options.dot_input_axes, x.shape().rank());
  check_axes(kOp, "kernel_axes", options.kernel_axes, kernel.shape().rank());
}

/// norm(x) into `y`, the statistics into `mu` (layernorm only) and `rsigma`.
void run_norm(const Saved& saved, const Output& y, Tensor& mu, Tensor& rsigma) {
  backend(saved.x.device())
      .norm({.type = saved.norm_type,
             .zero_centered_gamma = saved.zero_centered_gamma,
             .epsilon = saved.epsilon,
             .rows = rsigma.numel(),
             .cols = saved.gamma.numel(),
             .x = input_of(saved.x),
             .gamma = saved.gamma.data(),
             .beta = saved.beta.data(),
             .y = y,
             .mu = mu.mutable_data(),
             .rsigma = rsigma.mutable_data()});
}

/// The norm's output in x's dtype, computed again.
QuantizedTensor norm_again(const Saved& saved) {
  Tensor z = Tensor::empty(saved.x.shape(), saved.x.dtype());
  Tensor mu = Tensor::empty(saved.rsigma.shape(), saved.rsigma.dtype());
  Tensor rsigma = Tensor::empty(saved.rsigma.shape(), saved.rsigma.dtype());
  run_norm(saved, output_to(z), mu, rsigma);
  return QuantizedTensor(std::move(z));
}

void backward(const Saved& saved, Gradients& gradients) {
  const bool needs_gamma = gradients.needs(kGamma);
  const bool needs_beta = gradients.needs(kBeta);
  const bool needs_norm = gradients.needs(kX) || needs_gamma || needs_beta;
  SavedMatmul operands = saved.matmul;
  if (!operands.x.defined() && gradients.needs(kKernel)) operands.x = norm_again(saved);
  MatmulGradients matmul = matmul_backward(
      operands, gradients.output(), {needs_norm, gradients.needs(kKernel), gradients.needs(kBias)});
  if (gradients.needs(kKernel)) gradients.set(kKernel, std::move(matmul.kernel));
  if (gradients.needs(kBias)) gradients.set(kBias, std::move(matmul.bias));
  if (!needs_norm) return;

  const DType stat = stat_dtype(saved.x.dtype());
  Tensor dx, dgamma, dbeta;
  if (gradients.needs(kX)) dx = Tensor::empty(saved.x.shape(), saved.x.dtype());
  if (needs_gamma) dgamma = Tensor::empty(saved.gamma.shape(), stat);
  if (needs_beta) dbeta = Tensor::empty(saved.gamma.shape(), stat);
  backend(saved.x.device())
      .norm_backward({.type = saved.norm_type,
                      .zero_centered_gamma = saved.zero_centered_gamma,
                      .rows = saved.matmul.sizes.m,
                      .cols = saved.matmul.sizes.k,
                      .dy = input_of(matmul.x),
                      .x = input_of(saved.x),
                      .gamma = saved.gamma.data(),
                      .mu = saved.mu.data(),
                      .rsigma = saved.rsigma.data(),
                      .dx = output_to(dx),
                      .dgamma = dgamma.mutable_data(),
                      .dbeta = dbeta.mutable_data()});
  if (gradients.needs(kX)) gradients.set(kX, std::move(dx));
  if (needs_gamma) gradients.set(kGamma, dgamma.to(saved.gamma_dtype));
  if (needs_beta) gradients.set(kBeta, dbeta.to(saved.beta_dtype));
}

}  // namespace

Variable layernorm_dense(const Variable& x, const Variable& kernel, const Variable& gamma,
                         const Variable& beta, const Variable& bias,
                         const LayerNormDenseOptions& options) {
  const MatmulSizes sizes = check_matmul(kOp, x, kernel, bias);
  check_arguments(x, kernel, gamma, beta, options);

  const DType stat = stat_dtype(x.dtype());
  const QuantizerSet& set = options.quantizer_set;
  Saved saved{.x = x.tensor().contiguous(),
              .gamma = stat_tensor(gamma, x.dtype()),
              .beta = stat_tensor(beta, x.dtype()),
              .rsigma = Tensor::empty({sizes.m}, stat),
              .norm_type = options.norm_type,
              .zero_centered_gamma = options.zero_centered_gamma,
              .epsilon = options.epsilon,
              .gamma_dtype = gamma.dtype(),
              .beta_dtype = beta.defined() ? beta.dtype() : stat};
  if (options.norm_type == NormType::layernorm) saved.mu = Tensor::empty({sizes.m}, stat);

  CastTarget target(set.x, x.shape(), x.dtype(), saved.x.device());
  run_norm(saved, target.output(), saved.mu, saved.rsigma);
  saved.matmul = prepare_matmul(sizes, x, target.finish(), kernel, bias, set);
  const Shape y_shape =
      x.shape().axes(0, x.shape().rank() - 1).joined(kernel.shape().axes(1, kernel.shape().rank()));
  Tensor y = matmul_forward(saved.matmul, bias, y_shape);
  if (set.backward_override == BackwardOverride::high_precision) {
    keep_high_precision(saved.matmul, QuantizedTensor{}, kernel);
  }

  return record(kOp, {x, kernel, gamma, beta, bias}, std::move(y), std::move(saved), backward);
}

}  // namespace tape8
