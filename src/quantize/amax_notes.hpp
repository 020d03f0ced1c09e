#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <tape8/core/scaling.hpp>

#include "quantize/quantizer_state.hpp"

namespace tape8 {

/// The amax of each quantizer's casts in one pass, held apart from the quantizers until it is
/// committed.
class AmaxNotes {
 public:
  void note(const std::shared_ptr<QuantizerState>& quantizer, Amax amax);
  /// Merges the notes into their quantizers and forgets them; `advance` also ends the quantizers'
  /// pass.
  void commit(bool advance);
  void clear() { notes_.clear(); }

  /// Where casts on this thread leave their notes; null when nothing is to be noted.
  static AmaxNotes* current();

  /// Makes `notes` (or nothing) current on this thread; returns what was.
  static AmaxNotes* exchange_current(AmaxNotes* notes);

 private:
  std::vector<std::pair<std::shared_ptr<QuantizerState>, Amax>> notes_;  // one a quantizer
};

}  // namespace tape8
