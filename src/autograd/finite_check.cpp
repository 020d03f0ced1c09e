#include "autograd/finite_check.hpp"

#include <algorithm>

#include "backend/backend.hpp"
#include "core/fail.hpp"

namespace tape8 {

bool is_finite(const Tensor& tensor) {
  if (!tensor.defined() || !is_compute(tensor.dtype())) return true;
  const Tensor values = tensor.contiguous();
  return backend(values.device())
      .all_finite(values.numel(), {.data = values.data(), .dtype = values.dtype()});
}

void check_forward_finite(std::string_view op, std::span<const Variable> inputs,
                          const Tensor& output) {
  if (is_finite(output)) return;
  const bool from_finite = std::all_of(inputs.begin(), inputs.end(), [](const Variable& input) {
    return !input.defined() || is_finite(input.tensor());
  });
  if (from_finite)
    fail<StateError>("{}: forward must keep finite values finite: got NaN or Inf", op);
}

}  // namespace tape8
