#include <algorithm>
#include <cmath>
#include <numbers>

#include <tape8/nn/schedule.hpp>

#include "core/fail.hpp"

namespace tape8 {

WarmupCosine::WarmupCosine(const WarmupCosineOptions& options) : options_(options) {
  if (!(options.peak >= 0.0F && std::isfinite(options.peak))) {
    fail<OptionError>("warmup_cosine: peak must be finite and at least 0: got {}", options.peak);
  }
  if (!(options.final >= 0.0F && std::isfinite(options.final))) {
    fail<OptionError>("warmup_cosine: final must be finite and at least 0: got {}", options.final);
  }
  if (options.warmup_steps < 0 || options.warmup_steps >= options.total_steps) {
    fail<OptionError>("warmup_cosine: warmup_steps must lie in [0, total_steps): got {} of {}",
                      options.warmup_steps, options.total_steps);
  }
}

float WarmupCosine::operator()(std::int64_t step) const {
  if (step < 0) fail<OptionError>("warmup_cosine: step must be at least 0: got {}", step);
  if (step < options_.warmup_steps) {
    return options_.peak * static_cast<float>(step + 1) / static_cast<float>(options_.warmup_steps);
  }
  const double progress = static_cast<double>(step - options_.warmup_steps) /
                          static_cast<double>(options_.total_steps - options_.warmup_steps);
  const double fall = 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(progress, 1.0)));
  return options_.final + (options_.peak - options_.final) * static_cast<float>(fall);
}

}  // namespace tape8
