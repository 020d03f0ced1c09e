#include <cmath>
#include <utility>
#include <vector>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/activation.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "ops/checks.hpp"
#include "quantize/cast.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "activation";
enum Argument : int { kX };

struct Saved {
  Tensor x;
  ActivationType type;
  ActivationParams params;
  std::int64_t rows = 0, cols = 0;

  void visit(SavedVisitor& visitor) const { visitor("x", x); }
};

void check_arguments(const Variable& x, const ActivationType& type, const Quantizer& quantizer,
                     const ActivationParams& params) {
  check_given(kOp, "x", x);
  check_compute_dtype(kOp, "x", x.dtype());
  check_quantizable(kOp, x.dtype(), quantizer);
  check_rank_at_least_1(kOp, "x", x.shape());
  if (x.shape()[-1] % type.count() != 0) {
    fail<ShapeError>("activation: x.shape[-1] must be a multiple of the {} parts of {}: got {}",
                     type.count(), to_string(type), x.shape()[-1]);
  }
  for (const ActivationPart& part : type.parts()) {
    const CustomActivation* custom = part.custom();
    if (custom != nullptr && (custom->value == nullptr || custom->derivative == nullptr)) {
      fail<OptionError>("activation: a custom part needs value and derivative: got null");
    }
    if (x.dtype() == DType::f64 && part.custom() != nullptr &&
        part.custom()->value_f64 == nullptr) {
      fail<DTypeError>(
          "activation: a custom part needs functions of double for an x in f64: got none");
    }
  }
  const ClampedSwigluParams& clamped = params.clamped_swiglu;
  if (!(clamped.limit >= 0.0F) || !std::isfinite(clamped.limit)) {
    fail<OptionError>("activation: clamped_swiglu.limit must be finite and at least 0: got {}",
                      clamped.limit);
  }
  if (!std::isfinite(clamped.alpha) || !std::isfinite(clamped.glu_linear_offset)) {
    fail<OptionError>(
        "activation: clamped_swiglu.alpha and .glu_linear_offset must be finite: got {} and {}",
        clamped.alpha, clamped.glu_linear_offset);
  }
}

Shape output_shape(const Shape& x, std::int64_t cols) {
  return x.axes(0, x.rank() - 1).joined({cols});
}

}  // namespace

Variable activation(const Variable& x, const ActivationType& activation_type,
                    const Quantizer& quantizer, const ActivationParams& act_params) {
  check_arguments(x, activation_type, quantizer, act_params);
  Saved saved{.x = x.tensor().contiguous(),
              .type = activation_type,
              .params = act_params,
              .rows = x.shape().numel(0, x.shape().rank() - 1),
              .cols = x.shape()[-1] / activation_type.count()};

  CastTarget target(quantizer, output_shape(x.shape(), saved.cols), x.dtype(), saved.x.device(),
                    {.usages = {.columnwise = false}});
  backend(saved.x.device())
      .activation({.type = activation_type,
                   .params = act_params,
                   .rows = saved.rows,
                   .cols = saved.cols,
                   .x = input_of(saved.x),
                   .y = target.output()});
  Tensor y = target.finish().dequantize();

  return record(kOp, {x}, std::move(y), std::move(saved),
                [](const Saved& kept, Gradients& gradients) {
                  if (!gradients.needs(kX)) return;
                  Tensor dx = Tensor::empty(kept.x.shape(), kept.x.dtype(), kept.x.device());
                  backend(kept.x.device())
                      .activation_backward({.type = kept.type,
                                            .params = kept.params,
                                            .rows = kept.rows,
                                            .cols = kept.cols,
                                            .dy = input_of(gradients.output()),
                                            .x = input_of(kept.x),
                                            .dx = output_to(dx)});
                  gradients.set(kX, std::move(dx));
                });
}

}  // namespace tape8
