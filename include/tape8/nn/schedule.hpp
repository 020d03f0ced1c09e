#pragma once

#include <cstdint>

#include <tape8/core/export.hpp>

namespace tape8 {

struct WarmupCosineOptions {
  float peak = 1e-3F;             ///< learning rate after the warm-up
  float final = 0.0F;             ///< at total_steps and after
  std::int64_t warmup_steps = 0;  ///< at least 0
  std::int64_t total_steps = 1;   ///< above warmup_steps
};

/// A learning rate that rises linearly to its peak and then falls along half a cosine (Loshchilov
/// and Hutter, "SGDR", ICLR 2017).
///
///     optimizer.set_learning_rate(schedule(optimizer.steps()));
class TAPE8_API WarmupCosine {
 public:
  /// Throws OptionError for options out of range.
  explicit WarmupCosine(const WarmupCosineOptions& options);

  /// For the step after `step` others: peak * (step + 1) / warmup_steps, then
  /// final + (peak - final) (1 + cos(pi t)) / 2 with t from 0 to 1 over the remaining steps.
  float operator()(std::int64_t step) const;

 private:
  WarmupCosineOptions options_;
};

}  // namespace tape8
