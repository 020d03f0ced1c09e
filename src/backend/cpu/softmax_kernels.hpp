#pragma once

#include <cstdint>

#include "backend/cpu/norm_kernels.hpp"
#include "backend/cpu/vector_math.hpp"

namespace tape8::cpu {

inline constexpr float kInfinity = __builtin_inff();

template <class F>
[[gnu::flatten]] float block_max(float* x, int count) {
  fill_tail<F>(x, count, -kInfinity);
  F largest(-kInfinity);
  for (int i = 0; i < count; i += F::kLanes) largest = max(largest, F::load(x + i));
  return reduce_max(largest);
}

/// x = e^(x - shift), and the sum of it.
template <class F>
[[gnu::flatten]] float exponentiate(float* x, int count, float shift) {
  fill_tail<F>(x, count, -kInfinity);
  RowSum<F> sum;
  for_each_summed<F>(
      count, [&]<class V, int kPart>(int i) __attribute__((always_inline)) {
        const V e = exp(V::load(x + i) - V(shift));
        e.store(x + i);
        sum.template add<kPart>(e);
      });
  return sum.total();
}

/// The sum of x - shift.
template <class F>
double sum_shifted(const float* x, int count, float shift) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) sum += static_cast<double>(x[i]) - static_cast<double>(shift);
  return sum;
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
    float sum = 0.0F;
    double shifted_sum = 0.0;  // of logits less the largest
    for_each_row_block<F>(args.classes, [&](std::int64_t c, int count) {
      if (args.classes > kRowBlock) load_block<F>(args.logits, row + c, count, x.values);
      if (args.label_smoothing > 0.0F) shifted_sum += sum_shifted<F>(x.values, count, largest);
      sum += exponentiate<F>(x.values, count, largest);
    });
    // In f64: large logits would otherwise leave little of the difference.
    const double log_sum = __builtin_log(static_cast<double>(sum));
    logsumexp[r] = static_cast<float>(static_cast<double>(largest) + log_sum);
    if (args.labels[r] == kIgnoredLabel) {
      losses[r] = 0.0;
      continue;
    }
    float label_logit[F::kLanes];
    load_block<F>(args.logits, row + args.labels[r], 1, label_logit);
    const auto smoothing = static_cast<double>(args.label_smoothing);
    const double shifted = static_cast<double>(label_logit[0]) - static_cast<double>(largest);
    losses[r] = log_sum - (1.0 - smoothing) * shifted;
    if (smoothing > 0.0) losses[r] -= smoothing * shifted_sum / static_cast<double>(args.classes);
  }
}

/// Zeros in one row of `y`; `block` is room for a part of it.
template <class F>
void clear_row(const Output& y, std::int64_t row, std::int64_t cols, float* block) {
  for_each_row_block<F>(cols, [&](std::int64_t c, int count) {
    for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) { V(0.0F).store(block + i); });
    store_block<F>(block, y, row + c, count);
  });
}

template <class F>
AmaxBits softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackwardArgs& args, Range rows) {
  RowBlock x;
  const float scale = *static_cast<const float*>(args.dloss) /
                      static_cast<float>(args.counted > 0 ? args.counted : 1);
  const float smoothing = args.label_smoothing;
  const float spread = smoothing / static_cast<float>(args.classes > 0 ? args.classes : 1);
  const auto* logsumexp = static_cast<const float*>(args.logsumexp);
  const bool one_block = args.classes <= kRowBlock;
  AmaxBits amax = 0;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t row = r * args.classes;
    const auto read = [&](std::int64_t c, int count) {
      load_block<F>(args.logits, row + c, count, x.values);
      return exponentiate<F>(x.values, count, logsumexp[r]);
    };
    if (args.labels[r] == kIgnoredLabel) {
      clear_row<F>(args.dlogits, row, args.classes, x.values);
      continue;
    }
    // 1 but for the rounding of logsumexp, which large logits magnify: dividing by it takes that
    // out.
    float sum = 0.0F;
    for_each_row_block<F>(args.classes, [&](std::int64_t c, int count) { sum += read(c, count); });
    for_each_row_block<F>(args.classes, [&](std::int64_t c, int count) {
      if (!one_block) read(c, count);
      for_each_vector<F, F::kUnroll>(
          count, [&]<class V>(int i) { (V::load(x.values + i) / V(sum)).store(x.values + i); });
      const std::int64_t label = args.labels[r] - c;
      if (label >= 0 && label < count) x.values[label] -= 1.0F - smoothing;
      for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
        ((V::load(x.values + i) - V(spread)) * V(scale)).store(x.values + i);
      });
      amax = larger<F>(amax, store_block<F>(x.values, args.dlogits, row + c, count));
    });
  }
  return amax;
}

}  // namespace tape8::cpu
