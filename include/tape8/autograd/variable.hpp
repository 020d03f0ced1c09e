#pragma once

#include <memory>
#include <string>

#include <tape8/core/export.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {

class VariableState;

/// A tensor that ops take and give: a constant, a parameter (a leaf that gradients flow to), or the
/// result of an op on a tape. A shared handle. `Variable{}` is none, for inputs that are optional.
class TAPE8_API Variable {
 public:
  Variable() = default;
  Variable(Tensor tensor);  // NOLINT(google-explicit-constructor): a tensor is a constant

  bool defined() const { return state_ != nullptr; }
  explicit operator bool() const { return defined(); }

  /// Throws StateError for none, as do the calls below.
  const Tensor& tensor() const;
  const Shape& shape() const { return tensor().shape(); }
  DType dtype() const { return tensor().dtype(); }

  /// What the backwards since zero_grad() have added up, in the leaf's shape and dtype; undefined
  /// before the first, and for what is not a leaf.
  const Tensor& grad() const;
  void zero_grad();
  /// Memory of the caller's that this leaf's gradients are to be put in from the next backward on,
  /// such as Tensor::wrap() makes; a tensor that is none ends it. Throws StateError for results of
  /// ops, ShapeError or DTypeError unless it has the leaf's shape and dtype, OptionError unless it
  /// is contiguous and not the leaf's own.
  void set_grad_memory(Tensor memory);

  /// True for parameters that are not frozen and for results that depend on one.
  bool requires_grad() const;
  /// Freezes or thaws a parameter, for ops from then on: those recorded before keep to what it was.
  /// Throws StateError for results of ops.
  void set_requires_grad(bool requires_grad);
  bool is_leaf() const;
  /// The parameter's name; empty unless one was given.
  const std::string& name() const;

  /// For the layers above: the shared state itself.
  const std::shared_ptr<VariableState>& state() const { return state_; }

 private:
  friend Variable parameter(Tensor tensor, std::string name);
  friend class Tape;
  explicit Variable(std::shared_ptr<VariableState> state) : state_(std::move(state)) {}
  VariableState& checked() const;

  std::shared_ptr<VariableState> state_;
};

/// A leaf that gradients flow to. It shares `tensor`'s memory. Throws DTypeError unless the type is
/// one of f64, f32, bf16, f16.
TAPE8_API Variable parameter(Tensor tensor, std::string name = {});

}  // namespace tape8
