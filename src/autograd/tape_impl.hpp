#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tape8/autograd/tape.hpp>

#include "autograd/recycled_vector.hpp"
#include "autograd/variable_state.hpp"
#include "quantize/amax_notes.hpp"

namespace tape8 {

/// Where the gradient of one input goes, to a leaf, to an earlier node, or nowhere, and its form.
struct Edge {
  enum class Kind { none, leaf, node };
  Kind kind = Kind::none;
  std::shared_ptr<VariableState> leaf;  // of parameters, frozen ones too
  std::size_t node = 0;
  Shape shape;
  DType dtype = DType::f32;
};

/// One recorded op. It holds no input, so that only what its function saved stays in memory.
struct Node {
  std::string op;
  std::vector<Edge> edges;
  Shape shape;  // of the output
  DType dtype = DType::f32;
  Device device;
  std::unique_ptr<NodeFunction> function;     // null once backward has passed
  std::vector<std::uint64_t> saved_versions;  // in the order that the function shows them
};

/// Where this thread's ops are recorded, and where its casts leave their notes; null: nowhere.
struct Recording {
  Tape* tape = nullptr;
  AmaxNotes* notes = nullptr;
};

/// Makes `recording` current on this thread; returns what was.
Recording exchange_recording(const Recording& recording);

class [[gnu::visibility("hidden")]] Tape::Impl {
 public:
  explicit Impl(const TapeOptions& options);

  Variable append(std::string_view op, std::span<const Variable> inputs, Tensor output,
                  std::unique_ptr<NodeFunction> function);
  /// `dy` undefined: ones, for a result with one element.
  void backward(const Variable& y, Tensor dy, const BackwardOptions& options);
  std::int64_t saved_for_backward_bytes() const;

  /// False for the result of an op on another tape.
  bool takes(const Variable& input) const;
  std::size_t size() const { return nodes_->size(); }
  bool check_finite() const { return check_finite_; }
  /// After a failure: no backward will run, and no quantizer hears of the casts.
  void abandon();
  bool spent() const { return spent_; }
  AmaxNotes& notes() { return notes_; }

  Recording outer;  // what was current before

 private:
  class Run;

  Edge edge_to(const Variable& input) const;
  Tensor checked_cotangent(const Variable& y, Tensor dy) const;

  std::uint64_t id_;
  bool check_finite_;
  bool spent_ = false;
  AmaxNotes notes_;
  RecycledVector<Node> nodes_;
};

/// Whether an op that reads `input` now will be asked for its gradient.
bool gradient_wanted(const Variable& input);

/// Throws StateError when a tape is current and `input` is the result of an op on another: a check
/// for ops to make before they compute anything. `name` says which input it is.
void check_on_current_tape(std::string_view op, std::string_view name, const Variable& input);

}  // namespace tape8
