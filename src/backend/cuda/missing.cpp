#include "backend/cuda/check.hpp"
#include "backend/cuda/kernels.hpp"

// Kernels that the CUDA backend does not have yet.
namespace tape8::cuda {
namespace {

constexpr const char* kMissing = "has no kernel yet";

}  // namespace

void cast(Context&, const CastArgs&) { refuse("cast", kMissing); }
void activation(Context&, const ActivationArgs&) { refuse("activation", kMissing); }
void activation_backward(Context&, const ActivationBackwardArgs&) {
  refuse("activation_backward", kMissing);
}
void norm(Context&, const NormArgs&) { refuse("norm", kMissing); }
void norm_backward(Context&, const NormBackwardArgs&) { refuse("norm_backward", kMissing); }
void gemm(Context&, const GemmArgs&) { refuse("gemm", kMissing); }

}  // namespace tape8::cuda
