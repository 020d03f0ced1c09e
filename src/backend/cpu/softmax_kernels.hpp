#pragma once

#include <cstdint>

#include "backend/cpu/norm_kernels.hpp"
#include "backend/cpu/vector_math.hpp"

namespace tape8::cpu {

inline constexpr float kInfinity = __builtin_inff();

template <class F>
float block_max(float* x, int count) {
  fill_tail<F>(x, count, -kInfinity);
  F largest(-kInfinity);
  for (int i = 0; i < count; i += F::kLanes) largest = max(largest, F::load(x + i));
  return reduce_max(largest);
}

/// x = e^(x - shift), and the sum of it.
template <class F>
float exponentiate(float* x, int count, float shift) {
  fill_tail<F>(x, count, -kInfinity);
  RowSum<F> sum;
  for_each_vector<F, RowSum<F>::kWidth>(count, [&]<class V>(int i) {
    const V e = exp(V::load(x + i) - V(shift));
    e.store(x + i);
    sum.add(e, i);
  });
  return sum.total();
}

template <class F>
void softmax_cross_entropy(const SoftmaxCrossEntropyArgs& args, Range rows, double* losses) {
  RowBlock x;
  auto* logsumexp = static_cast<float*>(args.logsumexp);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t row = r * args.classes;
    float largest = -kInfinity;
    for_each_row_block<F>(args.classes, [&](std::int64_t c, int count) {
      load_block<F>(args.logits, row + c, count, x.values);
      const float m = block_max<F>(x.values, count);
      largest = m > largest ? m : largest;
    });
    float label_logit[F::kLanes];
    load_block<F>(args.logits, row + args.labels[r], 1, label_logit);
    float sum = 0.0F;
    for_each_row_block<F>(args.classes, [&](std::int64_t c, int count) {
      if (args.classes > kRowBlock) load_block<F>(args.logits, row + c, count, x.values);
      sum += exponentiate<F>(x.values, count, largest);
    });
    // In f64: large logits would otherwise leave little of the difference.
    const double log_sum = __builtin_log(static_cast<double>(sum));
    logsumexp[r] = static_cast<float>(static_cast<double>(largest) + log_sum);
    losses[r] = log_sum - (static_cast<double>(label_logit[0]) - static_cast<double>(largest));
  }
}

template <class F>
AmaxBits softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackwardArgs& args, Range rows) {
  RowBlock x;
  const float scale =
      *static_cast<const float*>(args.dloss) / static_cast<float>(args.rows > 0 ? args.rows : 1);
  const auto* logsumexp = static_cast<const float*>(args.logsumexp);
  const bool one_block = args.classes <= kRowBlock;
  AmaxBits amax = 0;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t row = r * args.classes;
    const auto read = [&](std::int64_t c, int count) {
      load_block<F>(args.logits, row + c, count, x.values);
      return exponentiate<F>(x.values, count, logsumexp[r]);
    };
    // 1 but for the rounding of logsumexp, which large logits magnify: dividing by it takes that
    // out.
    float sum = 0.0F;
    for_each_row_block<F>(args.classes, [&](std::int64_t c, int count) { sum += read(c, count); });
    for_each_row_block<F>(args.classes, [&](std::int64_t c, int count) {
      if (!one_block) read(c, count);
      for_each_vector<F, F::kUnroll>(
          count, [&]<class V>(int i) { (V::load(x.values + i) / V(sum)).store(x.values + i); });
      const std::int64_t label = args.labels[r] - c;
      if (label >= 0 && label < count) x.values[label] -= 1.0F;
      for_each_vector<F, F::kUnroll>(
          count, [&]<class V>(int i) { (V::load(x.values + i) * V(scale)).store(x.values + i); });
      amax = larger<F>(amax, store_block<F>(x.values, args.dlogits, row + c, count));
    });
  }
  return amax;
}

}  // namespace tape8::cpu
