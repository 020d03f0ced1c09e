#pragma once

#include <cstdint>
#include <memory>
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

class QuantizerState;

/// The amaxes of a quantizer's casts in one pass, each f32 of one element.
struct AmaxNote {
  std::shared_ptr<QuantizerState> quantizer;
  std::vector<Tensor> amaxes;
};

/// What a cast with one scale for the tensor uses: f32 of one element each, where the tensor lies.
struct Scales {
  Tensor scale, scale_inv;

  /// Values are not set.
  static Scales empty(const Device& device);
};

/// Those of a tensor with that amax under current scaling: 1 for an amax that is zero or not
/// finite.
Scales current_scales(const CurrentScaling& recipe, const Tensor& amax, DType format);

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

  /// Delayed scaling: what a cast on that device uses; the state moves there. The tensors are never
  /// changed: advancing makes others, so that what was cast keeps the scale_inv it was cast with.
  Scales scales(const Device& device);
  /// These wait for the device.
  Scale scale() const;
  std::vector<float> amax_history() const;
  std::int64_t non_finite_passes() const;
  void set(Scale scale, std::span<const float> amax_history);

  /// Whether columnwise casts are Hadamard-transformed, where their partner is too.
  bool hadamard() const;
  /// None where casts round to nearest.
  std::optional<RandomState> random_state() const;
  void set_random_state(const RandomState& random);
  /// The random numbers of one more cast.
  std::optional<StochasticRounding> next_rounding();

  /// Adds what a tape noted of delayed scaling's quantizers to the passes that are under way;
  /// `advance` ends these passes: histories and scales move on by what was merged.
  static void merge(std::span<const AmaxNote> notes, bool advance);

 private:
  void move_to(const Device& device);
  ScaleUpdate begin_advance(std::vector<const Amax*>& amaxes, Scales& next);
  void end_advance(Scales next);

  Recipe recipe_;
  TensorRole role_;
  DType dtype_;
  ScalingMode scaling_mode_;
  std::string checkpoint_name_;

  mutable std::mutex mutex_;  // guards what follows
  Scales scales_;
  Tensor amax_history_;       // f32
  Tensor non_finite_passes_;  // i64 of one element
  std::vector<Tensor> pending_;
  std::optional<RandomState> random_;
};

}  // namespace tape8
