#include "quantize/amax_notes.hpp"

#include <algorithm>

namespace tape8 {
namespace {

thread_local AmaxNotes* current_notes = nullptr;

}  // namespace

void AmaxNotes::note(const std::shared_ptr<QuantizerState>& quantizer, const Tensor& amax) {
  auto found = std::find_if(notes_.begin(), notes_.end(),
                            [&](const AmaxNote& entry) { return entry.quantizer == quantizer; });
  if (found == notes_.end()) found = notes_.insert(found, {.quantizer = quantizer, .amaxes = {}});
  found->amaxes.push_back(amax);
}

void AmaxNotes::note_draw(const std::shared_ptr<QuantizerState>& quantizer,
                          const RandomState& before) {
  draws_.emplace_back(quantizer, before);
}

void AmaxNotes::clear() {
  notes_.clear();
  for (auto draw = draws_.rbegin(); draw != draws_.rend(); ++draw) {
    draw->first->set_random_state(draw->second);
  }
  draws_.clear();
}

void AmaxNotes::commit(bool advance) {
  QuantizerState::merge(notes_, advance);
  notes_.clear();
  draws_.clear();
}

AmaxNotes* AmaxNotes::current() { return current_notes; }

AmaxNotes* AmaxNotes::exchange_current(AmaxNotes* notes) {
  return std::exchange(current_notes, notes);
}

}  // namespace tape8
