#include "quantize/quantizer_state.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <utility>

#include <tape8/core/rng.hpp>

#include "core/fail.hpp"

namespace tape8 {
namespace {

/// Streams of quantizers that were given none: in the order in which they were made.
std::uint64_t next_stream() {
  static std::atomic<std::uint64_t> count{0};
  return count.fetch_add(1, std::memory_order_relaxed);
}

Scales scales_of(Scale scale) {
  return {.scale = Tensor::from({scale.value}, {}),
          .scale_inv = Tensor::from({inverse(scale).value}, {})};
}

DType checked_dtype(const Recipe& recipe, TensorRole role) {
  if (std::holds_alternative<HighPrecision>(recipe)) {
    fail<OptionError>("quantizer: recipe must be one that quantizes: got high_precision");
  }
  return quantized_dtype(recipe, role);
}

}  // namespace

Scales Scales::empty(const Device& device) {
  return {.scale = Tensor::empty({}, DType::f32, device),
          .scale_inv = Tensor::empty({}, DType::f32, device)};
}

Scales current_scales(const CurrentScaling& recipe, const Tensor& amax, DType format) {
  Scales scales = Scales::empty(amax.device());
  const std::array<const Amax*, 1> amaxes{static_cast<const Amax*>(amax.data())};
  const std::array<ScaleUpdate, 1> updates{
      {{.format = format,
        .amaxes = amaxes,
        .power_of_2_scale = recipe.power_of_2_scale,
        .scale = static_cast<Scale*>(scales.scale.mutable_data()),
        .scale_inv = static_cast<ScaleInv*>(scales.scale_inv.mutable_data())}}};
  backend(amax.device()).update_scales({.updates = updates});
  return scales;
}

QuantizerState::QuantizerState(const Recipe& recipe, TensorRole role, std::string checkpoint_name)
    : recipe_(recipe),
      role_(role),
      dtype_(checked_dtype(recipe, role)),
      scaling_mode_(tape8::scaling_mode(recipe, role)),
      checkpoint_name_(std::move(checkpoint_name)) {
  if (const auto* delayed = std::get_if<DelayedScaling>(&recipe_)) {
    amax_history_ = Tensor::zeros({delayed->amax_history_len});
    non_finite_passes_ = Tensor::zeros({}, DType::i64);
    scales_ = scales_of({1.0F});
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
  amax_history_ = other.amax_history_.clone();
  non_finite_passes_ = other.non_finite_passes_.clone();
  pending_ = other.pending_;
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

Scales QuantizerState::scales(const Device& device) {
  const std::lock_guard lock(mutex_);
  move_to(device);
  return scales_;
}

Scale QuantizerState::scale() const {
  const std::lock_guard lock(mutex_);
  return {scales_.scale.item<float>()};
}

std::vector<float> QuantizerState::amax_history() const {
  const std::lock_guard lock(mutex_);
  return amax_history_.to_vector<float>();
}

std::int64_t QuantizerState::non_finite_passes() const {
  const std::lock_guard lock(mutex_);
  return non_finite_passes_.item<std::int64_t>();
}

void QuantizerState::set(Scale scale, std::span<const float> amax_history) {
  if (!std::isfinite(scale.value) || scale.value < kSmallestScale) {
    fail<OptionError>("set_state: scale must be finite and at least {}: got {}", kSmallestScale,
                      scale.value);
  }
  const auto length = static_cast<std::size_t>(std::get<DelayedScaling>(recipe_).amax_history_len);
  if (amax_history.size() != length) {
    fail<OptionError>("set_state: amax_history must have {} values: got {}", length,
                      amax_history.size());
  }
  for (const float amax : amax_history) {
    if (!std::isfinite(amax) || amax < 0.0F) {
      fail<OptionError>("set_state: amax_history must be finite and not negative: got {}", amax);
    }
  }
  const std::lock_guard lock(mutex_);
  move_to({});
  end_advance(scales_of(scale));
  std::copy(amax_history.begin(), amax_history.end(), amax_history_.mutable_span<float>().begin());
}

void QuantizerState::move_to(const Device& device) {
  if (scales_.scale.device() == device) return;
  scales_ = {scales_.scale.to(device), scales_.scale_inv.to(device)};
  amax_history_ = amax_history_.to(device);
  non_finite_passes_ = non_finite_passes_.to(device);
  for (Tensor& amax : pending_) amax = amax.to(device);
}

/// Points into this object, `amaxes` and `next`.
ScaleUpdate QuantizerState::begin_advance(std::vector<const Amax*>& amaxes, Scales& next) {
  const auto& delayed = std::get<DelayedScaling>(recipe_);
  for (const Tensor& amax : pending_) amaxes.push_back(static_cast<const Amax*>(amax.data()));
  next = Scales::empty(scales_.scale.device());
  return {.format = dtype_,
          .amaxes = amaxes,
          .margin = delayed.margin,
          .amax_history = static_cast<float*>(amax_history_.mutable_data()),
          .amax_history_length = amax_history_.numel(),
          .most_recent = delayed.amax_compute_algo == AmaxComputeAlgo::most_recent,
          .non_finite_passes = static_cast<std::int64_t*>(non_finite_passes_.mutable_data()),
          .previous = static_cast<const Scale*>(scales_.scale.data()),
          .scale = static_cast<Scale*>(next.scale.mutable_data()),
          .scale_inv = static_cast<ScaleInv*>(next.scale_inv.mutable_data())};
}

void QuantizerState::end_advance(Scales next) {
  pending_.clear();
  // Casts of weights are reused while the scale is the same tensor; on a GPU its value is not known
  // here.
  const bool known = scales_.scale.device().type == DeviceType::cpu;
  if (known && scales_.scale.item<float>() == next.scale.item<float>()) return;
  scales_ = std::move(next);
}

void QuantizerState::merge(std::span<const AmaxNote> notes, bool advance) {
  std::vector<QuantizerState*> states;
  for (const AmaxNote& note : notes) states.push_back(note.quantizer.get());
  // In one order for all threads, so that they do not wait for each other in a circle.
  std::sort(states.begin(), states.end());
  std::vector<std::unique_lock<std::mutex>> locks;
  for (QuantizerState* state : states) locks.emplace_back(state->mutex_);

  for (const AmaxNote& note : notes) {
    QuantizerState& state = *note.quantizer;
    for (const Tensor& amax : note.amaxes) {
      state.pending_.push_back(amax.to(state.scales_.scale.device()));
    }
  }
  if (!advance) return;

  std::vector<std::vector<const Amax*>> amaxes(states.size());
  std::vector<Scales> next(states.size());
  std::vector<std::pair<Device, std::vector<ScaleUpdate>>> updates;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Device device = states[i]->scales_.scale.device();
    auto group = std::find_if(updates.begin(), updates.end(),
                              [&](const auto& entry) { return entry.first == device; });
    if (group == updates.end()) group = updates.insert(group, {device, {}});
    group->second.push_back(states[i]->begin_advance(amaxes[i], next[i]));
  }
  for (const auto& [device, group] : updates) backend(device).update_scales({.updates = group});
  for (std::size_t i = 0; i < states.size(); ++i) states[i]->end_advance(std::move(next[i]));
}

}  // namespace tape8
