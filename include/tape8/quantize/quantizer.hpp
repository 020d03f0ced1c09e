#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tape8/core/export.hpp>
#include <tape8/core/scaling.hpp>
#include <tape8/quantize/quantized_tensor.hpp>
#include <tape8/quantize/recipe.hpp>

namespace tape8 {

class QuantizerState;

/// Where the random numbers of stochastic rounding come from: a stream of the recipe's seed, and
/// how many casts have taken theirs.
struct RandomState {
  std::uint64_t stream = 0;
  std::uint64_t casts = 0;
  friend bool operator==(const RandomState&, const RandomState&) = default;
};

/// Casts tensors of one role to the recipe's format and keeps the state that this needs: scale and
/// amax history for delayed scaling, the random state for NVFP4's dgrad, none otherwise. A shared
/// handle: copies share the state, clone() does not. `Quantizer{}` is none: what it is given stays
/// in high precision.
///
/// Delayed scaling's state moves only through a tape: casts under it note their amax there, and
/// when its backward completes, scale and history advance once (NVIDIA's delayed scaling: h[0] =
/// noted amax; the scale is made from the history; the history shifts by one).
class TAPE8_API Quantizer {
 public:
  Quantizer() = default;
  Quantizer(const Recipe& recipe, TensorRole role, std::string checkpoint_name = {});

  bool defined() const { return state_ != nullptr; }
  explicit operator bool() const { return defined(); }
  /// Another quantizer that starts from this one's state.
  Quantizer clone() const;

  /// Casts x (f32, bf16 or f16) for both usages; its axes from `flatten_axis` on are the columns.
  /// Under a live tape the amax is noted; without one nothing changes, but for the random state,
  /// which each cast takes its numbers from. None: x.
  QuantizedTensor quantize(const Tensor& x, int flatten_axis = -1) const;

  /// The format that quantize() writes.
  DType dtype() const;
  const Recipe& recipe() const;
  TensorRole role() const;
  const std::string& checkpoint_name() const;

  // Delayed scaling's state; with another recipe these throw StateError.

  /// What the next cast multiplies by.
  Scale scale() const;
  /// amax_history_len values; [0] is 0 and takes the next pass's amax; behind it the last one is
  /// the most recent.
  std::vector<float> amax_history() const;
  /// Throws OptionError for a scale that is not finite or below 2^-126, a history of another
  /// length, or an amax in it that is negative or not finite.
  void set_state(Scale scale, std::span<const float> amax_history);
  /// Passes whose amax was NaN or Inf, and so left no trace in scale or history.
  std::int64_t non_finite_passes() const;

  /// NVFP4's dgrad with stochastic rounding; with others these throw StateError. Streams are
  /// numbered in the order in which quantizers are made; modules take theirs from the generator
  /// that initializes them.
  RandomState random_state() const;
  void set_random_state(const RandomState& random);

  /// For the layers above: the shared state itself.
  const std::shared_ptr<QuantizerState>& state() const { return state_; }

  friend bool operator==(const Quantizer&, const Quantizer&) = default;

 private:
  const QuantizerState& checked(const char* call) const;
  const QuantizerState& checked_delayed(const char* call) const;

  std::shared_ptr<QuantizerState> state_;
};

/// The quantizers of one matmul. `QuantizerSet{}` is the no-op set; a role without a quantizer
/// stays in the compute dtype.
struct TAPE8_API QuantizerSet {
  Quantizer x;
  Quantizer kernel;
  Quantizer dgrad;
  BackwardOverride backward_override = BackwardOverride::none;

  QuantizerSet clone() const {
    return {x.clone(), kernel.clone(), dgrad.clone(), backward_override};
  }
};

/// A quantizer of that recipe; none for HighPrecision. Throws OptionError for options out of range.
TAPE8_API Quantizer make_quantizer(const Recipe& recipe, TensorRole role);
TAPE8_API QuantizerSet make_quantizer_set(const Recipe& recipe);

}  // namespace tape8
