#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/mse_loss.hpp>

#include "backend/backend.hpp"
#include "ops/checks.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "mse_loss";
enum Argument : int { kPrediction, kTarget };

struct Saved {
  Tensor prediction, target;

  void visit(SavedVisitor& visitor) const {
    visitor("prediction", prediction);
    visitor("target", target);
  }
};

void backward(const Saved& saved, Gradients& gradients) {
  if (!gradients.needs(kPrediction) && !gradients.needs(kTarget)) return;
  const Device device = saved.prediction.device();
  Backend& kernels = backend(device);
  Tensor dprediction = Tensor::empty(saved.prediction.shape(), saved.prediction.dtype(), device);
  kernels.mse_backward({.count = saved.prediction.numel(),
                        .prediction = input_of(saved.prediction),
                        .target = input_of(saved.target),
                        .dloss = gradients.output().data(),
                        .dprediction = output_to(dprediction)});
  if (gradients.needs(kTarget)) {
    Tensor dtarget = Tensor::empty(dprediction.shape(), dprediction.dtype(), device);
    kernels.scale({.count = dtarget.numel(),
                   .x = input_of(dprediction),
                   .factor = -1.0,
                   .y = output_to(dtarget)});
    gradients.set(kTarget, std::move(dtarget));
  }
  if (gradients.needs(kPrediction)) gradients.set(kPrediction, std::move(dprediction));
}

}  // namespace

Variable mse_loss(const Variable& prediction, const Variable& target) {
  check_given(kOp, "prediction", prediction);
  check_given(kOp, "target", target);
  check_device(kOp, "target", target.tensor(), prediction.tensor().device());
  check_compute_dtype(kOp, "prediction", prediction.dtype());
  check_shape(kOp, "target", target.shape(), "of prediction", prediction.shape());
  check_dtype(kOp, "target", target.dtype(), "of prediction", prediction.dtype());
  Saved saved{prediction.tensor().contiguous(), target.tensor().contiguous()};
  Tensor loss = Tensor::empty({}, stat_dtype(prediction.dtype()), saved.prediction.device());
  backend(saved.prediction.device())
      .mse({.count = saved.prediction.numel(),
            .prediction = input_of(saved.prediction),
            .target = input_of(saved.target),
            .loss = loss.mutable_data()});
  return record(kOp, {prediction, target}, std::move(loss), std::move(saved), backward);
}

}  // namespace tape8
