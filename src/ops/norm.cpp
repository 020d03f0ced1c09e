#include "ops/norm.hpp"

#include <cmath>

#include "core/fail.hpp"
#include "ops/checks.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

void run(const SavedNorm& saved, const Output& y, Tensor& mu, Tensor& rsigma) {
  backend(saved.x.device())
      .norm({.type = saved.options.type,
             .zero_centered_gamma = saved.options.zero_centered_gamma,
             .epsilon = saved.options.epsilon,
             .rows = rsigma.numel(),
             .cols = saved.gamma.numel(),
             .x = input_of(saved.x),
             .gamma = saved.gamma.data(),
             .beta = saved.beta.data(),
             .y = y,
             .mu = mu.mutable_data(),
             .rsigma = rsigma.mutable_data()});
}

}  // namespace

void SavedNorm::visit(SavedVisitor& visitor) const {
  visitor("x", x);
  visitor.borrowed("gamma", gamma);
  if (runs_again) visitor.borrowed("beta", beta);
  visitor("mu", mu);
  visitor("rsigma", rsigma);
}

void check_norm(const char* op, const Variable& x, const Variable& gamma, const Variable& beta,
                const NormOptions& options) {
  check_given(op, "x", x);
  check_given(op, "gamma", gamma);
  check_device(op, "gamma", gamma.tensor(), x.tensor().device());
  check_compute_dtype(op, "x", x.dtype());
  check_compute_dtype(op, "gamma", gamma.dtype());
  check_rank_at_least_1(op, "x", x.shape());
  const Shape hidden{x.shape()[-1]};
  check_shape(op, "gamma", gamma.shape(), "of x's hidden_in", hidden);
  if (beta.defined()) {
    if (options.type == NormType::rmsnorm) {
      fail<OptionError>("{}: beta must be none for rmsnorm: got shape {}", op,
                        to_string(beta.shape()));
    }
    check_given(op, "beta", beta);
    check_device(op, "beta", beta.tensor(), x.tensor().device());
    check_compute_dtype(op, "beta", beta.dtype());
    check_shape(op, "beta", beta.shape(), "of x's hidden_in", hidden);
  }
  if (!(options.epsilon >= 0.0F) || !std::isfinite(options.epsilon)) {
    fail<OptionError>("{}: epsilon must be finite and at least 0: got {}", op, options.epsilon);
  }
}

SavedNorm prepare_norm(const Variable& x, const Variable& gamma, const Variable& beta,
                       const NormOptions& options) {
  const Shape rows{x.shape().numel(0, x.shape().rank() - 1)};
  const DType stat = stat_dtype(x.dtype());
  SavedNorm saved{.x = x.tensor().contiguous(),
                  .gamma = stat_tensor(gamma, x.dtype()),
                  .beta = stat_tensor(beta, x.dtype()),
                  .rsigma = Tensor::empty(rows, stat, x.tensor().device()),
                  .options = options,
                  .gamma_dtype = gamma.dtype(),
                  .beta_dtype = beta.defined() ? beta.dtype() : stat};
  if (options.type == NormType::layernorm) {
    saved.mu = Tensor::empty(rows, stat, x.tensor().device());
  }
  return saved;
}

void norm_forward(SavedNorm& saved, const Output& y) { run(saved, y, saved.mu, saved.rsigma); }

void norm_again(const SavedNorm& saved, const Output& y) {
  const Tensor& stats = saved.rsigma;
  Tensor mu = Tensor::empty(stats.shape(), stats.dtype(), stats.device());
  Tensor rsigma = Tensor::empty(stats.shape(), stats.dtype(), stats.device());
  run(saved, y, mu, rsigma);
}

NormGradients norm_backward(const SavedNorm& saved, const Tensor& dy, const NormNeeds& needs) {
  const Device device = saved.x.device();
  Tensor dx, dgamma, dbeta;
  if (needs.x) dx = Tensor::empty(saved.x.shape(), saved.x.dtype(), device);
  if (needs.gamma) dgamma = Tensor::empty(saved.gamma.shape(), saved.gamma.dtype(), device);
  if (needs.beta) dbeta = Tensor::empty(saved.gamma.shape(), saved.gamma.dtype(), device);
  backend(device).norm_backward({.type = saved.options.type,
                                 .zero_centered_gamma = saved.options.zero_centered_gamma,
                                 .rows = saved.rsigma.numel(),
                                 .cols = saved.gamma.numel(),
                                 .dy = input_of(dy),
                                 .x = input_of(saved.x),
                                 .gamma = saved.gamma.data(),
                                 .mu = saved.mu.data(),
                                 .rsigma = saved.rsigma.data(),
                                 .dx = output_to(dx),
                                 .dgamma = dgamma.mutable_data(),
                                 .dbeta = dbeta.mutable_data()});
  return {dx, converted(dgamma, saved.gamma_dtype), converted(dbeta, saved.beta_dtype)};
}

}  // namespace tape8
