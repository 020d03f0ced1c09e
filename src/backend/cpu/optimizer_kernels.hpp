#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/cast_kernels.hpp"

namespace tape8::cpu {

/// Calls step.template operator()<V>(state, grad, i) for each vector of memory that is updated in
/// place; a last part of a vector goes through memory of its own.
template <class F, int N, class Step>
[[gnu::flatten]] void update_in_place(float* const (&state)[N], const float* grad, int count,
                                      const Step& step) {
  const int whole = count / F::kLanes * F::kLanes;
  for_each_vector<F, F::kUnroll>(
      whole, [&]<class V>(int i) { step.template operator()<V>(state, grad, i); });
  if (whole == count) return;
  const auto rest_bytes = static_cast<std::size_t>(count - whole) * sizeof(float);
  float rest[N][F::kLanes] = {};
  float* rest_state[N];
  for (int s = 0; s < N; ++s) {
    rest_state[s] = rest[s];
    __builtin_memcpy(rest[s], state[s] + whole, rest_bytes);
  }
  step.template operator()<F>(rest_state, grad + whole, 0);
  for (int s = 0; s < N; ++s) __builtin_memcpy(state[s] + whole, rest[s], rest_bytes);
}

template <class F>
AmaxBits adamw(const AdamWTensor& tensor, AdamWFactors factors, Range elements) {
  return for_each_block<F>({{0, 1}, elements}, 0, [&](std::int64_t, std::int64_t at, int count) {
    const auto f = factors;  // of this scope alone: no store can change it
    Block grad;
    load_block<F>(tensor.grad, at, count, grad.values);
    float* const state[] = {tensor.weight + at, tensor.exp_avg + at, tensor.exp_avg_sq + at};
    update_in_place<F>(
        state, grad.values, count, [&]<class V>(float* const* s, const float* g, int i) {
          const V gradient = V::load(g + i);
          const V m = fma(V(f.beta1), V::load(s[1] + i), V(f.one_minus_beta1) * gradient);
          const V v =
              fma(V(f.beta2), V::load(s[2] + i), V(f.one_minus_beta2) * (gradient * gradient));
          m.store(s[1] + i);
          v.store(s[2] + i);
          const V weight = V::load(s[0] + i);
          const V denominator = sqrt(v * V(f.inverse_correction2)) + V(f.epsilon);
          const V adaptive = m * V(f.inverse_correction1) / denominator;
          const V update = fma(V(f.weight_decay), weight, adaptive);
          fma(V(-f.learning_rate), update, weight).store(s[0] + i);
        });
    return store_block<F>(state[0], tensor.copy, at, count);
  });
}

template <class F>
AmaxBits sgd(const SgdTensor& tensor, SgdFactors factors, Range elements) {
  return for_each_block<F>({{0, 1}, elements}, 0, [&](std::int64_t, std::int64_t at, int count) {
    const auto f = factors;  // of this scope alone: no store can change it
    Block grad;
    load_block<F>(tensor.grad, at, count, grad.values);
    float* weights = tensor.weight + at;
    if (tensor.velocity == nullptr) {
      float* const state[] = {weights};
      update_in_place<F>(state, grad.values, count,
                         [&]<class V>(float* const* s, const float* g, int i) {
                           const V weight = V::load(s[0] + i);
                           const V step = fma(V(f.weight_decay), weight, V::load(g + i));
                           fma(V(-f.learning_rate), step, weight).store(s[0] + i);
                         });
    } else {
      float* const state[] = {weights, tensor.velocity + at};
      update_in_place<F>(
          state, grad.values, count, [&]<class V>(float* const* s, const float* g, int i) {
            const V weight = V::load(s[0] + i);
            const V decayed = fma(V(f.weight_decay), weight, V::load(g + i));
            const V velocity = fma(V(f.momentum), V::load(s[1] + i), decayed);
            velocity.store(s[1] + i);
            const V step = f.nesterov ? fma(V(f.momentum), velocity, decayed) : velocity;
            fma(V(-f.learning_rate), step, weight).store(s[0] + i);
          });
    }
    return store_block<F>(weights, tensor.copy, at, count);
  });
}

}  // namespace tape8::cpu
