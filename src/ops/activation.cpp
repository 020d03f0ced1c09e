#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/activation.hpp>

#include "core/fail.hpp"
#include "ops/activate.hpp"
#include "ops/checks.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "activation";
enum Argument : int { kX };

}  // namespace

Variable activation(const Variable& x, const ActivationType& activation_type,
                    const Quantizer& quantizer, const ActivationParams& act_params) {
  check_given(kOp, "x", x);
  check_compute_dtype(kOp, "x", x.dtype());
  check_quantizable(kOp, x.dtype(), quantizer);
  check_rank_at_least_1(kOp, "x", x.shape());
  if (x.shape()[-1] % activation_type.count() != 0) {
    fail<ShapeError>("activation: x.shape[-1] must be a multiple of the {} parts of {}: got {}",
                     activation_type.count(), to_string(activation_type), x.shape()[-1]);
  }
  check_activation(kOp, x.dtype(), activation_type, act_params);

  SavedActivation saved = prepare_activation(x.tensor().contiguous(), activation_type, act_params);
  CastTarget target(quantizer, saved.y_shape(), x.dtype(), saved.x.device(),
                    {.usages = {.columnwise = false}});
  activation_forward(saved, target.output());
  Tensor y = target.finish().dequantize();

  return record(kOp, {x}, std::move(y), std::move(saved),
                [](const SavedActivation& kept, Gradients& gradients) {
                  if (!gradients.needs(kX)) return;
                  Tensor dx = Tensor::empty(kept.x.shape(), kept.x.dtype(), kept.x.device());
                  activation_backward(kept, gradients.output(), output_to(dx));
                  gradients.set(kX, std::move(dx));
                });
}

}  // namespace tape8
