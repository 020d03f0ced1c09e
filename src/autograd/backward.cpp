#include <unordered_map>
#include <utility>

#include "autograd/finite_check.hpp"
#include "autograd/saved_tensors.hpp"
#include "autograd/tape_impl.hpp"
#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "core/storage.hpp"

namespace tape8 {
namespace {

/// A gradient that is being added up.
struct Sum {
  Tensor value;
  bool owned = false;  // made here, so that it may be added to in place

  void add(Tensor gradient) {
    if (!value.defined()) {
      value = std::move(gradient);
      return;
    }
    Tensor target = owned ? value : Tensor::empty(value.shape(), value.dtype(), value.device());
    backend(value.device())
        .binary({.op = BinaryOp::add,
                 .count = value.numel(),
                 .a = {.data = value.data(), .dtype = value.dtype()},
                 .b = {.data = gradient.data(), .dtype = gradient.dtype()},
                 .y = {.data = target.mutable_data(), .dtype = target.dtype()}});
    value = std::move(target);
    owned = true;
  }
};

/// A gradient in the caller's memory.
Tensor memory_with(Tensor memory, const Tensor& gradient) {
  memory.copy_from(gradient);
  return memory;
}

/// While it lives no op is recorded, and casts leave their notes on `notes`.
class RunScope {
 public:
  explicit RunScope(AmaxNotes& notes) : outer_(exchange_recording({nullptr, &notes})) {}
  ~RunScope() { exchange_recording(outer_); }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  Recording outer_;
};

/// The gradients of one node's inputs, held in `inputs` until its closure has returned.
class NodeGradients final : public Gradients {
 public:
  NodeGradients(const Node& node, const Tensor& output, std::vector<Tensor>& inputs)
      : node_(node), output_(output), inputs_(inputs) {
    inputs_.assign(node.edges.size(), Tensor{});
  }

  const Tensor& output() const override { return output_; }

  bool needs(int index) const override { return checked_edge(index).kind != Edge::Kind::none; }

  void set(int index, Tensor gradient) override {
    const Edge& edge = checked_edge(index);
    if (edge.kind == Edge::Kind::none) return;
    if (!gradient.defined() || gradient.shape() != edge.shape) {
      fail<ShapeError>("{}: gradient of input {} must have the input's shape {}: got {}", node_.op,
                       index, to_string(edge.shape),
                       gradient.defined() ? to_string(gradient.shape()) : "none");
    }
    if (gradient.dtype() != edge.dtype) {
      fail<DTypeError>("{}: gradient of input {} must have the input's dtype {}: got {}", node_.op,
                       index, to_string(edge.dtype), to_string(gradient.dtype()));
    }
    // Memory that is the user's may be written to again before the leaf's gradient is read.
    const bool is_ours = gradient.storage()->owned();
    if (!is_ours) {
      gradient = gradient.clone();
    } else if (!gradient.is_contiguous()) {
      gradient = gradient.contiguous();
    }
    inputs_[static_cast<std::size_t>(index)] = std::move(gradient);
  }

 private:
  const Edge& checked_edge(int index) const {
    if (index < 0 || index >= static_cast<int>(node_.edges.size())) {
      fail<OptionError>("{}: gradient index must lie within {} inputs: got {}", node_.op,
                        node_.edges.size(), index);
    }
    return node_.edges[static_cast<std::size_t>(index)];
  }

  const Node& node_;
  const Tensor& output_;
  std::vector<Tensor>& inputs_;
};

}  // namespace

/// One backward over a tape's nodes. Leaves are changed at the end, when no closure can throw any
/// more.
class Tape::Impl::Run {
 public:
  Run(std::vector<Node>& nodes, bool retain, bool check_finite)
      : nodes_(nodes), retain_(retain), check_finite_(check_finite) {
    sums_->resize(nodes.size());
  }

  void from(std::size_t last, Tensor dy) {
    (*sums_)[last].add(dy.contiguous());
    for (std::size_t i = last + 1; i-- > 0;) {
      Node& node = nodes_[i];
      const Tensor dy_here = std::exchange((*sums_)[i], {}).value;
      if (dy_here.defined()) run(node, dy_here);
      if (!retain_) node.function.reset();
    }
    if (!retain_) {
      for (std::size_t i = last + 1; i < nodes_.size(); ++i) nodes_[i].function.reset();
    }
  }

  void commit() {
    // What may fail for want of memory comes first, so that all leaves change or none.
    for (auto& [leaf, sum] : leaf_sums_) {
      const bool needs_own_memory = !leaf->grad.defined() && !leaf->grad_memory.defined();
      if (needs_own_memory && !sum.owned && sum.value.use_count() > 1) {
        sum.value = sum.value.clone();
      }
    }
    for (auto& [leaf, sum] : leaf_sums_) {
      const Tensor& memory = leaf->grad_memory;
      if (leaf->grad.defined() && memory.defined() && leaf->grad.data() != memory.data()) {
        // The memory was given after a backward: what that left moves there.
        leaf->grad = memory_with(memory, leaf->grad);
      }
      if (leaf->grad.defined()) {
        Sum total{leaf->grad, true};
        total.add(sum.value);
      } else if (memory.defined()) {
        leaf->grad = memory_with(memory, sum.value);
      } else {
        leaf->grad = std::move(sum.value);
      }
    }
  }

 private:
  void run(Node& node, const Tensor& dy) {
    check_saved_versions(node.op, *node.function, node.saved_versions);
    NodeGradients gradients(node, dy, input_gradients_);
    node.function->backward(gradients);
    for (std::size_t i = 0; i < node.edges.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (edge.kind == Edge::Kind::none) continue;
      Tensor& gradient = input_gradients_[i];
      if (!gradient.defined()) {
        fail<StateError>("{}: backward must set the gradient of input {}: got none", node.op, i);
      }
      if (check_finite_ && is_finite(dy) && !is_finite(gradient)) {
        fail<StateError>("{}: backward must keep finite values finite: got NaN or Inf for input {}",
                         node.op, i);
      }
      if (edge.kind == Edge::Kind::node) {
        (*sums_)[edge.node].add(std::move(gradient));
      } else {
        leaf_sum(edge.leaf).add(std::move(gradient));
      }
    }
  }

  Sum& leaf_sum(const std::shared_ptr<VariableState>& leaf) {
    const auto [found, added] = leaf_index_.try_emplace(leaf.get(), leaf_sums_.size());
    if (added) leaf_sums_.emplace_back(leaf, Sum{});
    return leaf_sums_[found->second].second;
  }

  std::vector<Node>& nodes_;
  bool retain_;
  bool check_finite_;
  RecycledVector<Sum> sums_;
  std::vector<Tensor> input_gradients_;  // of the node that runs
  std::vector<std::pair<std::shared_ptr<VariableState>, Sum>> leaf_sums_;
  std::unordered_map<const VariableState*, std::size_t> leaf_index_;
};

Tensor Tape::Impl::checked_cotangent(const Variable& y, Tensor dy) const {
  if (!y.defined()) fail<OptionError>("backward: a result must be given: got none");
  if (spent_) {
    fail<StateError>(
        "backward: a tape runs once unless it is retained, and not after a failure: got another "
        "call");
  }
  if (y.state()->tape_id != id_) {
    fail<StateError>("backward: the result must have been recorded on this tape: got {}",
                     y.is_leaf() ? "a constant or a parameter" : "the result of another tape");
  }
  if (!dy.defined()) {
    if (y.tensor().numel() != 1) {
      fail<ShapeError>("backward: without dy the result must have one element: got shape {}",
                       to_string(y.shape()));
    }
    return Tensor::full(y.shape(), 1.0, y.dtype(), y.tensor().device());
  }
  if (dy.shape() != y.shape()) {
    fail<ShapeError>("backward: dy must have y's shape {}: got {}", to_string(y.shape()),
                     to_string(dy.shape()));
  }
  if (dy.dtype() != y.dtype()) {
    fail<DTypeError>("backward: dy must have y's dtype {}: got {}", to_string(y.dtype()),
                     to_string(dy.dtype()));
  }
  return dy;
}

void Tape::Impl::backward(const Variable& y, Tensor dy, const BackwardOptions& options) {
  dy = checked_cotangent(y, std::move(dy));
  spent_ = true;
  try {
    const RunScope scope(notes_);
    Run run(*nodes_, options.retain, check_finite_);
    run.from(y.state()->node, std::move(dy));
    run.commit();
  } catch (...) {
    abandon();
    throw;
  }
  notes_.commit(options.advance_quantizers);
  spent_ = !options.retain;
}

}  // namespace tape8
