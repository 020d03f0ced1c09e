#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tape8/core/scaling.hpp>
#include <tape8/core/tensor.hpp>
#include <tape8/quantize/quantizer.hpp>
#include <tape8/quantize/recipe.hpp>

#include "backend/backend.hpp"

namespace tape8 {

/// The larger of two; NaN if either is.
Amax larger(Amax a, Amax b);

/// The scale that brings `amax` to the format's largest value, divided by 2^margin. An amax that is
/// zero or not finite leaves `previous`. A scale that would be Inf is the largest float; none is
/// subnormal, as its inverse would be Inf.
Scale scale_from_amax(Amax amax, DType format, int margin, Scale previous);

/// The scale of a tensor with that amax under current scaling; 1 for an amax that is zero or not
/// finite.
Scale current_scale(const CurrentScaling& recipe, Amax amax, DType format);

/// What the handles of one quantizer share. Safe to use from several threads.
class QuantizerState {
 public:
  /// Throws OptionError for options out of range, and for HighPrecision, which needs no state.
  QuantizerState(const Recipe& recipe, TensorRole role, std::string checkpoint_name);
  QuantizerState(const QuantizerState& other);
  QuantizerState& operator=(const QuantizerState&) = delete;

  const Recipe& recipe() const { return recipe_; }
  TensorRole role() const { return role_; }
  DType dtype() const { return dtype_; }
  ScalingMode scaling_mode() const { return scaling_mode_; }
  const std::string& checkpoint_name() const { return checkpoint_name_; }

  /// What a cast with delayed scaling uses. The tensor is never changed: advancing makes another,
  /// so that what was cast keeps the scale_inv it was cast with.
  struct Scales {
    Scale scale;
    Tensor scale_inv;
  };
  Scales scales() const;
  Scale scale() const { return scales().scale; }
  std::vector<float> amax_history() const;
  void set(Scale scale, std::span<const float> amax_history);
  std::int64_t non_finite_passes() const;

  /// Whether columnwise casts are Hadamard-transformed, where their partner is too.
  bool hadamard() const;
  /// None where casts round to nearest.
  std::optional<RandomState> random_state() const;
  void set_random_state(const RandomState& random);
  /// The random numbers of one more cast.
  std::optional<StochasticRounding> next_rounding();

  /// Adds what a tape noted to the pass that is under way; `advance_after` ends the pass: history
  /// and scale move on by what was merged.
  void merge(Amax amax, bool advance_after);

 private:
  void set_scale(Scale scale);
  void advance();

  Recipe recipe_;
  TensorRole role_;
  DType dtype_;
  ScalingMode scaling_mode_;
  std::string checkpoint_name_;

  mutable std::mutex mutex_;  // guards what follows
  Scales scales_;
  std::vector<float> amax_history_;
  std::optional<Amax> pending_;
  std::int64_t non_finite_passes_ = 0;
  std::optional<RandomState> random_;
};

}  // namespace tape8
