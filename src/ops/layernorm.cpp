#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/layernorm.hpp>

#include "ops/checks.hpp"
#include "ops/norm.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "layernorm";
enum Argument : int { kX, kGamma, kBeta };

void backward(const SavedNorm& saved, Gradients& gradients) {
  const NormNeeds needs{gradients.needs(kX), gradients.needs(kGamma), gradients.needs(kBeta)};
  NormGradients made = norm_backward(saved, gradients.output(), needs);
  if (needs.x) gradients.set(kX, std::move(made.x));
  if (needs.gamma) gradients.set(kGamma, std::move(made.gamma));
  if (needs.beta) gradients.set(kBeta, std::move(made.beta));
}

}  // namespace

Variable layernorm(const Variable& x, const Variable& gamma, const Variable& beta,
                   const LayerNormOptions& options) {
  const NormOptions norm{options.norm_type, options.zero_centered_gamma, options.epsilon};
  check_norm(kOp, x, gamma, beta, norm);
  check_quantizable(kOp, x.dtype(), options.quantizer);
  SavedNorm saved = prepare_norm(x, gamma, beta, norm);
  CastTarget target(options.quantizer, x.shape(), x.dtype(), saved.x.device(),
                    {.usages = {.columnwise = false}});
  norm_forward(saved, target.output());
  return record(kOp, {x, gamma, beta}, target.finish().dequantize(), std::move(saved), backward);
}

}  // namespace tape8
