#pragma once

#include "backend/backend.hpp"

namespace tape8 {

/// The numbers of an AdamW step that all tensors share.
struct AdamWFactors {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  float one_minus_beta1 = 0, one_minus_beta2 = 0;
  float inverse_correction1 = 1, inverse_correction2 = 1;  // 1 / (1 - beta^step)
};

/// Rounded once: the same on every backend.
AdamWFactors factors_of(const AdamWArgs& args);

/// The numbers of an SGD step that all tensors share.
struct SgdFactors {
  float learning_rate = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

SgdFactors factors_of(const SgdArgs& args);

}  // namespace tape8
