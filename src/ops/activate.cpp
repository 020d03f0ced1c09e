#include "ops/activate.hpp"

#include <cmath>
#include <utility>

#include "core/fail.hpp"
#include "ops/checks.hpp"

namespace tape8 {

void check_activation(const char* op, DType x, const ActivationType& type,
                      const ActivationParams& params) {
  for (const ActivationPart& part : type.parts()) {
    const CustomActivation* custom = part.custom();
    if (custom == nullptr) continue;
    if (custom->value == nullptr || custom->derivative == nullptr) {
      fail<OptionError>("{}: a custom part needs value and derivative: got null", op);
    }
    if (x == DType::f64 && custom->value_f64 == nullptr) {
      fail<DTypeError>("{}: a custom part needs functions of double for an x in f64: got none", op);
    }
  }
  const ClampedSwigluParams& clamped = params.clamped_swiglu;
  if (!(clamped.limit >= 0.0F) || !std::isfinite(clamped.limit)) {
    fail<OptionError>("{}: clamped_swiglu.limit must be finite and at least 0: got {}", op,
                      clamped.limit);
  }
  if (!std::isfinite(clamped.alpha) || !std::isfinite(clamped.glu_linear_offset)) {
    fail<OptionError>(
        "{}: clamped_swiglu.alpha and .glu_linear_offset must be finite: got {} and {}", op,
        clamped.alpha, clamped.glu_linear_offset);
  }
}

SavedActivation prepare_activation(Tensor x, const ActivationType& type,
                                   const ActivationParams& params) {
  const Shape shape = x.shape();
  return {.x = std::move(x),
          .type = type,
          .params = params,
          .rows = shape.numel(0, shape.rank() - 1),
          .cols = shape[-1] / type.count()};
}

void activation_forward(const SavedActivation& saved, const Output& y) {
  backend(saved.x.device())
      .activation({.type = saved.type,
                   .params = saved.params,
                   .rows = saved.rows,
                   .cols = saved.cols,
                   .x = input_of(saved.x),
                   .y = y});
}

void activation_backward(const SavedActivation& saved, const Tensor& dy, const Output& dx,
                         Stat* dbias) {
  backend(saved.x.device())
      .activation_backward({.type = saved.type,
                            .params = saved.params,
                            .rows = saved.rows,
                            .cols = saved.cols,
                            .dy = input_of(dy),
                            .x = input_of(saved.x),
                            .dx = dx,
                            .dbias = dbias});
}

}  // namespace tape8
