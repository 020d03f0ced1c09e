#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <tape8/core/tensor.hpp>

#include "quantize/quantizer_state.hpp"

namespace tape8 {

/// The amaxes of each quantizer's casts in one pass, held apart from the quantizers until it is
/// committed.
class AmaxNotes {
 public:
  void note(const std::shared_ptr<QuantizerState>& quantizer, const Tensor& amax);
  /// A cast has taken random numbers; `before` is the quantizer's state until then.
  void note_draw(const std::shared_ptr<QuantizerState>& quantizer, const RandomState& before);
  /// Merges the notes into their quantizers and forgets them; `advance` also ends the quantizers'
  /// pass.
  void commit(bool advance);
  /// Forgets the notes, and gives random numbers that were taken back.
  void clear();

  /// Where casts on this thread leave their notes; null when nothing is to be noted.
  static AmaxNotes* current();

  /// Makes `notes` (or nothing) current on this thread; returns what was.
  static AmaxNotes* exchange_current(AmaxNotes* notes);

 private:
  std::vector<AmaxNote> notes_;  // one a quantizer
  std::vector<std::pair<std::shared_ptr<QuantizerState>, RandomState>> draws_;
};

}  // namespace tape8
