#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <tape8/core/tensor.hpp>

#include "autograd/weight_casts.hpp"

namespace tape8 {

/// What the handles of one variable share. A constant has neither casts nor a node, a parameter
/// casts, a result a node.
class VariableState {
 public:
  Tensor value;
  Tensor grad;
  Tensor grad_memory;  // where grad is to lie; undefined: anywhere
  std::string name;
  bool requires_grad = false;
  std::unique_ptr<WeightCasts> weight_casts;
  std::uint64_t tape_id = 0;  // 0: not the result of a recorded op
  std::size_t node = 0;

  bool is_leaf() const { return tape_id == 0; }
};

}  // namespace tape8
