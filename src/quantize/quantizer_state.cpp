#include "quantize/quantizer_state.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <tape8/core/rng.hpp>

#include "core/fail.hpp"

namespace tape8 {
namespace {

/// The inverse of a smaller scale could be Inf, and zeros would decode to NaN.
constexpr float kSmallestScale = std::numeric_limits<float>::min();

/// Streams of quantizers that were given none: in the order in which they were made.
std::uint64_t next_stream() {
  static std::atomic<std::uint64_t> count{0};
  return count.fetch_add(1, std::memory_order_relaxed);
}

DType checked_dtype(const Recipe& recipe, TensorRole role) {
  if (std::holds_alternative<HighPrecision>(recipe)) {
    fail<OptionError>("quantizer: recipe must be one that quantizes: got high_precision");
  }
  return quantized_dtype(recipe, role);
}

}  // namespace

Amax larger(Amax a, Amax b) {
  if (std::isnan(a.value)) return a;
  return b.value <= a.value ? a : b;
}

Scale scale_from_amax(Amax amax, DType format, int margin, Scale previous) {
  if (!std::isfinite(amax.value) || amax.value <= 0.0F) return previous;
  const float scale = std::ldexp(low_precision_max(format) / amax.value, -margin);
  return {std::clamp(scale, kSmallestScale, std::numeric_limits<float>::max())};
}

Scale current_scale(const CurrentScaling& recipe, Amax amax, DType format) {
  const Scale scale = scale_from_amax(amax, format, 0, Scale{1.0F});
  if (!recipe.power_of_2_scale) return scale;
  constexpr std::uint32_t kMantissa = 0x007FFFFF;
  return {std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale.value) & ~kMantissa)};
}

QuantizerState::QuantizerState(const Recipe& recipe, TensorRole role, std::string checkpoint_name)
    : recipe_(recipe),
      role_(role),
      dtype_(checked_dtype(recipe, role)),
      scaling_mode_(tape8::scaling_mode(recipe, role)),
      checkpoint_name_(std::move(checkpoint_name)) {
  if (const auto* delayed = std::get_if<DelayedScaling>(&recipe_)) {
    amax_history_.resize(static_cast<std::size_t>(delayed->amax_history_len));
    set_scale(Scale{1.0F});
  }
  const auto* nvfp4 = std::get_if<NVFP4BlockScaling>(&recipe_);
  if (nvfp4 != nullptr && nvfp4->stochastic_rounding && role == TensorRole::dgrad) {
    random_ = RandomState{.stream = next_stream()};
  }
}

QuantizerState::QuantizerState(const QuantizerState& other)
    : recipe_(other.recipe_),
      role_(other.role_),
      dtype_(other.dtype_),
      scaling_mode_(other.scaling_mode_),
      checkpoint_name_(other.checkpoint_name_) {
  const std::lock_guard lock(other.mutex_);
  scales_ = other.scales_;
  amax_history_ = other.amax_history_;
  pending_ = other.pending_;
  non_finite_passes_ = other.non_finite_passes_;
  random_ = other.random_;
}

bool QuantizerState::hadamard() const {
  const auto* nvfp4 = std::get_if<NVFP4BlockScaling>(&recipe_);
  return nvfp4 != nullptr && nvfp4->hadamard_transform && role_ != TensorRole::kernel;
}

std::optional<RandomState> QuantizerState::random_state() const {
  const std::lock_guard lock(mutex_);
  return random_;
}

void QuantizerState::set_random_state(const RandomState& random) {
  const std::lock_guard lock(mutex_);
  random_ = random;
}

std::optional<StochasticRounding> QuantizerState::next_rounding() {
  const std::lock_guard lock(mutex_);
  if (!random_) return std::nullopt;
  constexpr std::uint32_t kRank = 0;
  const auto words = philox(std::get<NVFP4BlockScaling>(recipe_).seed,
                            {static_cast<std::uint32_t>(random_->stream),
                             static_cast<std::uint32_t>(random_->stream >> 32), kRank, 0});
  return StochasticRounding{.key = static_cast<std::uint64_t>(words[1]) << 32 | words[0],
                            .cast = random_->casts++};
}

QuantizerState::Scales QuantizerState::scales() const {
  const std::lock_guard lock(mutex_);
  return scales_;
}

std::vector<float> QuantizerState::amax_history() const {
  const std::lock_guard lock(mutex_);
  return amax_history_;
}

std::int64_t QuantizerState::non_finite_passes() const {
  const std::lock_guard lock(mutex_);
  return non_finite_passes_;
}

void QuantizerState::set(Scale scale, std::span<const float> amax_history) {
  if (!std::isfinite(scale.value) || scale.value < kSmallestScale) {
    fail<OptionError>("set_state: scale must be finite and at least {}: got {}", kSmallestScale,
                      scale.value);
  }
  if (amax_history.size() != amax_history_.size()) {
    fail<OptionError>("set_state: amax_history must have {} values: got {}", amax_history_.size(),
                      amax_history.size());
  }
  for (const float amax : amax_history) {
    if (!std::isfinite(amax) || amax < 0.0F) {
      fail<OptionError>("set_state: amax_history must be finite and not negative: got {}", amax);
    }
  }
  const std::lock_guard lock(mutex_);
  set_scale(scale);
  amax_history_.assign(amax_history.begin(), amax_history.end());
  pending_.reset();
}

void QuantizerState::merge(Amax amax, bool advance_after) {
  const std::lock_guard lock(mutex_);
  pending_ = pending_ ? larger(*pending_, amax) : amax;
  if (advance_after) advance();
}

void QuantizerState::advance() {
  const Amax noted = *std::exchange(pending_, std::nullopt);
  if (!std::isfinite(noted.value)) {
    ++non_finite_passes_;
    return;
  }
  const auto* delayed = std::get_if<DelayedScaling>(&recipe_);
  if (delayed == nullptr) return;
  amax_history_.front() = noted.value;
  const bool use_history = delayed->amax_compute_algo == AmaxComputeAlgo::max;
  const Amax basis =
      use_history ? Amax{*std::max_element(amax_history_.begin(), amax_history_.end())} : noted;
  set_scale(scale_from_amax(basis, dtype_, delayed->margin, scales_.scale));
  std::rotate(amax_history_.begin(), amax_history_.begin() + 1, amax_history_.end());
  amax_history_.front() = 0.0F;
}

void QuantizerState::set_scale(Scale scale) {
  if (scales_.scale_inv.defined() && scales_.scale == scale) return;
  scales_ = {scale, Tensor::from({inverse(scale).value}, {})};
}

}  // namespace tape8
