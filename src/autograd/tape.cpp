#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <tape8/autograd/tape.hpp>

#include "autograd/finite_check.hpp"
#include "autograd/saved_tensors.hpp"
#include "autograd/tape_impl.hpp"
#include "core/fail.hpp"
#include "core/storage.hpp"

namespace tape8 {
namespace {

thread_local Tape* current_tape = nullptr;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> id{0};
  return ++id;
}

bool environment_checks_finite() {
  const char* value = std::getenv("TAPE8_CHECK_FINITE");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

Recording exchange_recording(const Recording& recording) {
  return {.tape = std::exchange(current_tape, recording.tape),
          .notes = AmaxNotes::exchange_current(recording.notes)};
}

void check_on_current_tape(std::string_view op, std::string_view name, const Variable& input) {
  if (current_tape != nullptr && !current_tape->impl().takes(input)) {
    fail<StateError>(
        "{}: {} must come from the current tape: got the result of an op on another one "
        "(Variable{{x.tensor()}} takes it as a constant)",
        op, name);
  }
}

Tape::Tape(const TapeOptions& options) : impl_(std::make_unique<Impl>(options)) {
  impl_->outer = exchange_recording({this, &impl_->notes()});
}

Tape::~Tape() {
  if (current_tape == this) {
    exchange_recording(impl_->outer);
    return;
  }
  // Not the innermost: take it out of the chain of those within it.
  for (Tape* tape = current_tape; tape != nullptr; tape = tape->impl_->outer.tape) {
    if (tape->impl_->outer.tape == this) tape->impl_->outer = impl_->outer;
  }
}

void Tape::backward(const Variable& loss, const BackwardOptions& options) {
  impl_->backward(loss, Tensor{}, options);
}

void Tape::backward(const Variable& y, const Tensor& dy, const BackwardOptions& options) {
  if (!dy.defined()) fail<OptionError>("backward: dy must be given: got none");
  impl_->backward(y, dy, options);
}

std::size_t Tape::size() const { return impl_->size(); }
std::int64_t Tape::saved_for_backward_bytes() const { return impl_->saved_for_backward_bytes(); }
Tape* Tape::current() { return current_tape; }

RecordingPause::RecordingPause() {
  const Recording outer = exchange_recording({});
  tape_ = outer.tape;
  notes_ = outer.notes;
}

RecordingPause::~RecordingPause() { exchange_recording({tape_, notes_}); }

Tape::Impl::Impl(const TapeOptions& options)
    : id_(next_id()), check_finite_(options.check_finite || environment_checks_finite()) {}

void Tape::Impl::abandon() {
  spent_ = true;
  notes_.clear();
}

bool Tape::Impl::takes(const Variable& input) const {
  return !input.defined() || !input.requires_grad() || input.is_leaf() ||
         input.state()->tape_id == id_;
}

Edge Tape::Impl::edge_to(const Variable& input) const {
  if (!input.defined()) return {};
  const VariableState& state = *input.state();
  Edge edge{.shape = input.shape(), .dtype = input.dtype()};
  if (state.is_leaf()) {
    if (state.requires_grad || state.weight_casts != nullptr) edge.leaf = input.state();
    if (state.requires_grad) edge.kind = Edge::Kind::leaf;
  } else if (state.requires_grad) {
    edge.kind = Edge::Kind::node;
    edge.node = state.node;
  }
  return edge;
}

Variable Tape::Impl::append(std::string_view op, std::span<const Variable> inputs, Tensor output,
                            std::unique_ptr<NodeFunction> function) {
  Node node{.op = std::string(op),
            .shape = output.shape(),
            .dtype = output.dtype(),
            .device = output.device()};
  node.edges.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!takes(inputs[i])) check_on_current_tape(op, fmt::format("input {}", i), inputs[i]);
    node.edges.push_back(edge_to(inputs[i]));
  }
  node.saved_versions = saved_versions(*function);
  node.function = std::move(function);

  auto state = std::make_shared<VariableState>();
  state->value = std::move(output);
  state->requires_grad = true;
  state->tape_id = id_;
  state->node = nodes_->size();
  nodes_->push_back(std::move(node));
  return Variable(std::move(state));
}

std::int64_t Tape::Impl::saved_for_backward_bytes() const {
  std::unordered_set<const Storage*> blocks;
  std::unordered_set<const Storage*> parameters;
  for (const Node& node : *nodes_) {
    if (node.function != nullptr) collect_saved_blocks(*node.function, blocks);
    for (const Edge& edge : node.edges) {
      if (edge.leaf != nullptr) parameters.insert(edge.leaf->value.storage());
    }
  }
  std::int64_t bytes = 0;
  for (const Storage* block : blocks) {
    if (!parameters.contains(block)) bytes += static_cast<std::int64_t>(block->nbytes());
  }
  return bytes;
}

bool gradient_wanted(const Variable& input) {
  return current_tape != nullptr && !current_tape->impl().spent() && input.defined() &&
         input.requires_grad();
}

namespace detail {

bool prepare_record(std::string_view op, std::span<const Variable> inputs, const Tensor& output) {
  if (!output.defined()) fail<OptionError>("{}: the output must be given: got none", op);
  if (current_tape == nullptr) return false;
  Tape::Impl& tape = current_tape->impl();
  if (tape.check_finite()) {
    try {
      check_forward_finite(op, inputs, output);
    } catch (...) {
      tape.abandon();  // with the notes of the casts that the op has made
      throw;
    }
  }
  if (tape.spent()) return false;
  return std::any_of(inputs.begin(), inputs.end(), [](const Variable& input) {
    return input.defined() && input.requires_grad();
  });
}

Variable append_node(std::string_view op, std::span<const Variable> inputs, Tensor output,
                     std::unique_ptr<NodeFunction> function) {
  return current_tape->impl().append(op, inputs, std::move(output), std::move(function));
}

}  // namespace detail
}  // namespace tape8
