#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/dropout.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "ops/checks.hpp"

namespace tape8 {
namespace {

struct Saved {
  float rate;
  std::uint64_t seed;

  void visit(SavedVisitor&) const {}
};

Tensor run(const Tensor& x, const Saved& saved) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend(x.device())
      .dropout({.count = x.numel(),
                .x = input_of(x),
                .rate = saved.rate,
                .seed = saved.seed,
                .y = output_to(y)});
  return y;
}

}  // namespace

Variable dropout(const Variable& x, float rate, Rng& rng) {
  check_given("dropout", "x", x);
  check_compute_dtype("dropout", "x", x.dtype());
  if (!(rate >= 0.0F && rate < 1.0F)) {
    fail<OptionError>("dropout: rate must lie in [0, 1): got {}", rate);
  }
  Rng advanced = rng;  // which stays where it was if this throws
  const Saved saved{rate, advanced.next()};
  Variable y = record("dropout", {x}, run(x.tensor().contiguous(), saved), saved,
                      [](const Saved& kept, Gradients& gradients) {
                        if (gradients.needs(0)) gradients.set(0, run(gradients.output(), kept));
                      });
  rng = advanced;
  return y;
}

}  // namespace tape8
