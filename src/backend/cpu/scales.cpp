#include "backend/cpu/scales.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tape8::cpu {
namespace {

/// NaN if one of them is.
float largest(std::span<const Amax* const> amaxes) {
  float result = 0.0F;
  for (const Amax* amax : amaxes) {
    if (std::isnan(amax->value)) return amax->value;
    result = std::max(result, amax->value);
  }
  return result;
}

float scale_of(float amax, const ScaleUpdate& update) {
  if (!std::isfinite(amax) || amax <= 0.0F) {
    return update.previous == nullptr ? 1.0F : update.previous->value;
  }
  const float scale =
      std::clamp(std::ldexp(low_precision_max(update.format) / amax, -update.margin),
                 kSmallestScale, std::numeric_limits<float>::max());
  if (!update.power_of_2_scale) return scale;
  constexpr std::uint32_t kMantissa = 0x007FFFFF;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) & ~kMantissa);
}

/// Moves the history on; returns what the scale is made of.
float push(float amax, const ScaleUpdate& update) {
  const std::span<float> history(update.amax_history,
                                 static_cast<std::size_t>(update.amax_history_length));
  history.front() = amax;
  const float basis = update.most_recent ? amax : *std::max_element(history.begin(), history.end());
  std::rotate(history.begin(), history.begin() + 1, history.end());
  history.front() = 0.0F;
  return basis;
}

}  // namespace

void update_scales(const UpdateScalesArgs& args) {
  for (const ScaleUpdate& update : args.updates) {
    float amax = largest(update.amaxes);
    if (update.amax_history != nullptr) {
      if (std::isfinite(amax)) {
        amax = push(amax, update);
      } else {
        ++*update.non_finite_passes;
      }
    }
    *update.scale = {scale_of(amax, update)};
    *update.scale_inv = inverse(*update.scale);
  }
}

}  // namespace tape8::cpu
