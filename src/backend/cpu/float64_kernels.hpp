#pragma once

#include "backend/backend.hpp"

// The ops on f64 values, for checks of gradients and the like: plain loops of one thread. Stat
// memory is f64, but for casts whose x is not f64.
namespace tape8::cpu::float64 {

void cast(const CastArgs& args);
void activation(const ActivationArgs& args);
void activation_backward(const ActivationBackwardArgs& args);
void norm(const NormArgs& args);
void norm_backward(const NormBackwardArgs& args);
void softmax_cross_entropy(const SoftmaxCrossEntropyArgs& args);
void softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackwardArgs& args);
void binary(const BinaryArgs& args);
void scale(const ScaleArgs& args);
void reduce(const ReduceArgs& args);
void broadcast(const BroadcastArgs& args);
void dropout(const DropoutArgs& args);
void mse(const MseArgs& args);
void mse_backward(const MseBackwardArgs& args);
double sum_of_squares(std::int64_t count, const Input& x);
bool all_finite(std::int64_t count, const Input& x);

}  // namespace tape8::cpu::float64
