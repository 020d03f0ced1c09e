#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/tensor.hpp>
#include <tape8/quantize/quantized_tensor.hpp>

namespace tape8 {

class AmaxNotes;

/// Is shown the tensors that a node keeps for backward, so that the tape can count them and refuse
/// to go on when one was changed in place.
class TAPE8_API SavedVisitor {
 public:
  virtual ~SavedVisitor() = default;
  void operator()(std::string_view name, const Tensor& tensor) { visit(name, tensor, true); }
  void operator()(std::string_view name, const QuantizedTensor& tensor) {
    visit_parts(name, tensor, true);
  }
  /// Memory that lives on without the tape, such as a cast of a weight: checked, not counted.
  void borrowed(std::string_view name, const QuantizedTensor& tensor) {
    visit_parts(name, tensor, false);
  }
  void borrowed(std::string_view name, const Tensor& tensor) { visit(name, tensor, false); }

 private:
  virtual void visit(std::string_view name, const Tensor& tensor, bool counted) = 0;
  void visit_parts(std::string_view name, const QuantizedTensor& tensor, bool counted);
};

/// What a backward closure reads the cotangent from and writes its results to.
class TAPE8_API Gradients {
 public:
  virtual ~Gradients() = default;
  /// The gradient of the op's output: its shape and dtype, contiguous.
  virtual const Tensor& output() const = 0;
  /// False when nothing needs the gradient of input `index`: skip its computation.
  virtual bool needs(int index) const = 0;
  /// The gradient of input `index`, taken over: its memory must not be written to again (memory
  /// that came from Tensor::wrap is copied). Throws ShapeError or DTypeError unless it is of the
  /// input's form.
  virtual void set(int index, Tensor gradient) = 0;
};

/// The forward and backward halves of one recorded op; see record().
class TAPE8_API NodeFunction {
 public:
  virtual ~NodeFunction() = default;
  virtual void visit(SavedVisitor& visitor) const = 0;
  virtual void backward(Gradients& gradients) const = 0;
};

struct TapeOptions {
  /// After each op, forward and backward: StateError naming the first that makes a NaN or Inf from
  /// finite inputs; the tape is then spent. Also on when TAPE8_CHECK_FINITE=1 is in the
  /// environment.
  bool check_finite = false;
};

struct BackwardOptions {
  /// Keep closures and saved tensors, so that backward may run again.
  bool retain = false;
  /// Advance the scales of the quantizers that were used. False for all microbatches but the last:
  /// what was noted is merged and kept until then.
  bool advance_quantizers = true;
};

/// Records the ops of this thread for as long as it lives, and runs them backward. Tapes nest: the
/// innermost records. Not to be moved, nor shared between
/// threads. After its backward (without retain) it records nothing more.
class TAPE8_API Tape {
 public:
  explicit Tape(const TapeOptions& options = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Gradients of a result with one element, with respect to every parameter it depends on, added
  /// to their grad(). Then the quantizers advance. Throws StateError when `loss` was not recorded
  /// here or backward has run without `retain`; ShapeError when it has more than one element. When
  /// it throws, no gradient and no quantizer has changed; the tape is spent unless an argument was
  /// at fault.
  void backward(const Variable& loss, const BackwardOptions& options = {});
  /// The same from a cotangent `dy` of y's shape and dtype.
  void backward(const Variable& y, const Tensor& dy, const BackwardOptions& options = {});

  /// Nodes recorded.
  std::size_t size() const;
  /// Bytes that the tape keeps for backward: each block of memory once, without parameters and
  /// casts of them, which live on without the tape.
  std::int64_t saved_for_backward_bytes() const;

  /// The innermost tape of this thread, or null.
  static Tape* current();

  class Impl;
  /// For the layers above: the tape itself.
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// While it lives this thread records nothing and casts note nothing, though a tape is alive:
/// evaluation in the middle of a training step. Pauses and tapes end in the reverse order of their
/// beginning.
class TAPE8_API RecordingPause {
 public:
  RecordingPause();
  ~RecordingPause();
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  Tape* tape_ = nullptr;
  AmaxNotes* notes_ = nullptr;
};

namespace detail {

/// Runs the checks of an op's result; true when the op is to be put on the current tape.
TAPE8_API bool prepare_record(std::string_view op, std::span<const Variable> inputs,
                              const Tensor& output);
TAPE8_API Variable append_node(std::string_view op, std::span<const Variable> inputs, Tensor output,
                               std::unique_ptr<NodeFunction> function);

}  // namespace detail

/// What a node keeps for backward: a struct that shows its tensors to a SavedVisitor.
template <class S>
concept SavedState = std::movable<S> && requires(const S& saved, SavedVisitor& visitor) {
  saved.visit(visitor);
};

/// Saved state of an op that keeps nothing.
struct NothingSaved {
  void visit(SavedVisitor&) const {}
};

namespace detail {

/// A node's function made of saved state and a closure over it.
template <class Saved, class Backward>
class RecordedFunction final : public NodeFunction {
 public:
  RecordedFunction(Saved saved, Backward closure)
      : saved_(std::move(saved)), backward_(std::move(closure)) {}
  void visit(SavedVisitor& visitor) const override { saved_.visit(visitor); }
  void backward(Gradients& gradients) const override { backward_(saved_, gradients); }

 private:
  Saved saved_;
  Backward backward_;
};

}  // namespace detail

/// Records an op that computed `output` from `inputs` (some may be none) and returns its result.
/// Without a tape, or when no input requires a gradient, the result is a constant and `saved` is
/// dropped. Throws StateError when an input was recorded on another tape: Variable{x.tensor()}
/// takes it as a constant.
///
/// `backward(saved, gradients)` sets the gradient of each input that is needed. It runs at most
/// once, unless backward retains; ops that it calls are not recorded.
///
///     struct Saved {
///       Tensor x;
///       void visit(SavedVisitor& visitor) const { visitor("x", x); }
///     };
///     return record("square", {x}, y, Saved{x.tensor()}, [](const Saved& saved, Gradients& grads)
///     {
///       if (grads.needs(0)) grads.set(0, ...2 * saved.x * grads.output()...);
///     });
template <SavedState Saved, std::invocable<const Saved&, Gradients&> Backward>
Variable record(std::string_view op, std::span<const Variable> inputs, Tensor output, Saved saved,
                Backward backward) {
  if (!detail::prepare_record(op, inputs, output)) return Variable{std::move(output)};
  return detail::append_node(op, inputs, std::move(output),
                             std::make_unique<detail::RecordedFunction<Saved, Backward>>(
                                 std::move(saved), std::move(backward)));
}

template <SavedState Saved, std::invocable<const Saved&, Gradients&> Backward>
Variable record(std::string_view op, std::initializer_list<Variable> inputs, Tensor output,
                Saved saved, Backward backward) {
  return record(op, std::span<const Variable>(inputs.begin(), inputs.size()), std::move(output),
                std::move(saved), std::move(backward));
}

}  // namespace tape8
