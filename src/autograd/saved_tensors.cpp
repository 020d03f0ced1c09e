#include "autograd/saved_tensors.hpp"

#include <utility>

#include "core/fail.hpp"

namespace tape8 {
namespace {

/// Calls visit(name, tensor, counted) for each saved tensor.
template <class Visit>
class Visitor final : public SavedVisitor {
 public:
  explicit Visitor(Visit visit) : visit_(std::move(visit)) {}

 private:
  void visit(std::string_view name, const Tensor& tensor, bool counted) override {
    if (tensor.defined()) visit_(name, tensor, counted);
  }

  Visit visit_;
};

template <class Visit>
void for_each_saved(const NodeFunction& function, Visit visit) {
  Visitor<Visit> visitor(std::move(visit));
  function.visit(visitor);
}

}  // namespace

void SavedVisitor::visit_parts(std::string_view name, const QuantizedTensor& tensor, bool counted) {
  for (const Usage usage : {Usage::rowwise, Usage::columnwise}) {
    if (!tensor.has(usage)) continue;
    const QuantizedPart& part = tensor.operand(usage);
    for (const Tensor& memory : {part.data, part.scale_inv, part.tensor_scale_inv}) {
      visit(name, memory, counted);
    }
  }
}

std::vector<std::uint64_t> saved_versions(const NodeFunction& function) {
  std::vector<std::uint64_t> versions;
  for_each_saved(function, [&](std::string_view, const Tensor& tensor, bool) {
    versions.push_back(tensor.version());
  });
  return versions;
}

void check_saved_versions(std::string_view op, const NodeFunction& function,
                          const std::vector<std::uint64_t>& versions) {
  std::size_t index = 0;
  for_each_saved(function, [&](std::string_view name, const Tensor& tensor, bool) {
    const std::uint64_t recorded = versions.at(index++);
    if (tensor.version() != recorded) {
      fail<StateError>(
          "{}: saved tensor {} must not change before backward: got version {}, was {}", op, name,
          tensor.version(), recorded);
    }
  });
}

void collect_saved_blocks(const NodeFunction& function,
                          std::unordered_set<const Storage*>& blocks) {
  for_each_saved(function, [&](std::string_view, const Tensor& tensor, bool counted) {
    if (counted) blocks.insert(tensor.storage());
  });
}

}  // namespace tape8
