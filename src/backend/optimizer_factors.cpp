#include "backend/optimizer_factors.hpp"

#include <cmath>

namespace tape8 {

AdamWFactors factors_of(const AdamWArgs& args) {
  const double beta1 = args.beta1, beta2 = args.beta2, step = static_cast<double>(args.step);
  return {
      .learning_rate = args.learning_rate,
      .beta1 = args.beta1,
      .beta2 = args.beta2,
      .epsilon = args.epsilon,
      .weight_decay = args.weight_decay,
      .one_minus_beta1 = static_cast<float>(1.0 - beta1),
      .one_minus_beta2 = static_cast<float>(1.0 - beta2),
      .inverse_correction1 = static_cast<float>(1.0 / (1.0 - std::pow(beta1, step))),
      .inverse_correction2 = static_cast<float>(1.0 / (1.0 - std::pow(beta2, step))),
  };
}

SgdFactors factors_of(const SgdArgs& args) {
  return {.learning_rate = args.learning_rate,
          .momentum = args.momentum,
          .weight_decay = args.weight_decay,
          .nesterov = args.nesterov};
}

}  // namespace tape8
