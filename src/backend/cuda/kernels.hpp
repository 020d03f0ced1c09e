#pragma once

#include <cstdint>

#include "backend/backend.hpp"

namespace tape8::cuda {

class Context;

// What CudaBackend consists of. Each puts its work on the context's stream and returns at once;
// those that return a value wait for it. Kernels run in f64 where x is f64.

void cast(Context& context, const CastArgs& args);
void activation(Context& context, const ActivationArgs& args);
void activation_backward(Context& context, const ActivationBackwardArgs& args);
void norm(Context& context, const NormArgs& args);
void norm_backward(Context& context, const NormBackwardArgs& args);
void gemm(Context& context, const GemmArgs& args);
void softmax_cross_entropy(Context& context, const SoftmaxCrossEntropyArgs& args);
void softmax_cross_entropy_backward(Context& context, const SoftmaxCrossEntropyBackwardArgs& args);
void binary(Context& context, const BinaryArgs& args);
void scale(Context& context, const ScaleArgs& args);
void reduce(Context& context, const ReduceArgs& args);
void broadcast(Context& context, const BroadcastArgs& args);
void dropout(Context& context, const DropoutArgs& args);
void mse(Context& context, const MseArgs& args);
void mse_backward(Context& context, const MseBackwardArgs& args);
void adamw(Context& context, const AdamWArgs& args);
void sgd(Context& context, const SgdArgs& args);
void update_scales(Context& context, const UpdateScalesArgs& args);
double sum_of_squares(Context& context, std::int64_t count, const Input& x);
bool all_finite(Context& context, std::int64_t count, const Input& x);

}  // namespace tape8::cuda
