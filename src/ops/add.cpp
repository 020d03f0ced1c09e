#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/add.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "ops/checks.hpp"

namespace tape8 {

Variable add(const Variable& a, const Variable& b) {
  check_given("add", "a", a);
  check_given("add", "b", b);
  check_compute_dtype("add", "a", a.dtype());
  check_shape("add", "b", b.shape(), "of a", a.shape());
  if (b.dtype() != a.dtype()) {
    fail<DTypeError>("add: b must have the dtype of a, {}: got {}", to_string(a.dtype()),
                     to_string(b.dtype()));
  }
  const Tensor a_values = a.tensor().contiguous();
  const Tensor b_values = b.tensor().contiguous();
  Tensor y = Tensor::empty(a.shape(), a.dtype(), a_values.device());
  backend(y.device())
      .add({.count = y.numel(),
            .a = input_of(a_values),
            .b = input_of(b_values),
            .y = output_to(y)});
  return record("add", {a, b}, std::move(y), NothingSaved{},
                [](const NothingSaved&, Gradients& gradients) {
                  for (const int input : {0, 1}) {
                    if (gradients.needs(input)) gradients.set(input, gradients.output());
                  }
                });
}

}  // namespace tape8
