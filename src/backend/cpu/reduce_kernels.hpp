#pragma once

#include <cstdint>

#include "backend/cpu/cast_kernels.hpp"

namespace tape8::cpu {

// Sums in f64: every f32 term is exact there, and one rounding to the result's type is left.

/// 16 sums of the values in turn, added as a tree.
template <class F>
class DoubleSum {
 public:
  /// A whole number of vectors, zeros past the values.
  void add(const float* values, int count) {
    for (int i = 0; i < count; i += F::kLanes) {
      for (int lane = 0; lane < F::kLanes; ++lane)
        lanes_[lane] += static_cast<double>(values[i + lane]);
    }
  }
  double total() {
    for (int half = F::kLanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes_[lane] += lanes_[lane + half];
    }
    return lanes_[0];
  }

 private:
  double lanes_[F::kLanes] = {};
};

/// The sum of read(offset, count, block) over a range, where read fills a block of values.
template <class F, class Read>
double sum_blocks(Range elements, const Read& read) {
  DoubleSum<F> sum;
  for (std::int64_t at = elements.begin; at < elements.end; at += kBlock) {
    Block block;
    const int count = block_size<F>(at, elements.end, kBlock);
    read(at, count, block.values);
    fill_tail<F>(block.values, count, 0.0F);
    sum.add(block.values, count);
  }
  return sum.total();
}

template <class F>
double sum(const Input& x, Range elements) {
  return sum_blocks<F>(elements, [&](std::int64_t at, int count, float* block) {
    load_block<F>(x, at, count, block);
  });
}

/// Products of f32 values are exact in f64, so the squares are taken there.
template <class F>
double sum_of_squares(const Input& x, Range elements) {
  double lanes[F::kLanes] = {};
  for (std::int64_t at = elements.begin; at < elements.end; at += kBlock) {
    Block block;
    const int count = block_size<F>(at, elements.end, kBlock);
    load_block<F>(x, at, count, block.values);
    for (int i = 0; i < count; i += F::kLanes) {
      for (int lane = 0; lane < F::kLanes; ++lane) {
        const auto value = static_cast<double>(block.values[i + lane]);
        lanes[lane] += value * value;
      }
    }
  }
  double total = 0.0;
  for (const double lane : lanes) total += lane;
  return total;
}

template <class F>
double squared_error(const MseArgs& args, Range elements) {
  return sum_blocks<F>(elements, [&](std::int64_t at, int count, float* block) {
    Block target;
    load_block<F>(args.prediction, at, count, block);
    load_block<F>(args.target, at, count, target.values);
    for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
      const V difference = V::load(block + i) - V::load(target.values + i);
      (difference * difference).store(block + i);
    });
  });
}

/// Columns `cols` of the sums over the middle axis of slice `outer`; at most kBlock of them.
template <class F>
AmaxBits reduce_columns(const ReduceArgs& args, std::int64_t outer, Range cols) {
  const auto count = static_cast<int>(cols.end - cols.begin);
  double sums[kBlock] = {};
  Block block;
  for (std::int64_t r = 0; r < args.reduced; ++r) {
    load_block<F>(args.x, (outer * args.reduced + r) * args.inner + cols.begin, count,
                  block.values);
    for (int i = 0; i < count; ++i) sums[i] += static_cast<double>(block.values[i]);
  }
  for (int i = 0; i < count; ++i) block.values[i] = static_cast<float>(sums[i] * args.factor);
  return store_block<F>(block.values, args.y, outer * args.inner + cols.begin, count);
}

/// Rows (o, r) of y, each factor * x[o] over the inner axis.
template <class F>
AmaxBits broadcast(const BroadcastArgs& args, Range rows) {
  const auto factor = static_cast<float>(args.factor);
  return for_each_block<F>(
      {rows, {0, args.inner}}, args.inner, [&](std::int64_t offset, std::int64_t c, int count) {
        Block block;
        const std::int64_t row = args.inner == 0 ? 0 : (offset - c) / args.inner;
        load_block<F>(args.x, row / args.reduced * args.inner + c, count, block.values);
        for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
          (V::load(block.values + i) * V(factor)).store(block.values + i);
        });
        return store_block<F>(block.values, args.y, offset, count);
      });
}

/// Elements of y where the inner axis is 1: slice o holds factor * x[o] throughout.
template <class F>
AmaxBits broadcast_scalar(const BroadcastArgs& args, std::int64_t outer, Range elements) {
  Block value;
  load_block<F>(args.x, outer, 1, value.values);
  const float filler = value.values[0] * static_cast<float>(args.factor);
  return for_each_block<F>({{0, 1}, elements}, 0, [&](std::int64_t, std::int64_t at, int count) {
    Block block;
    for_each_vector<F, F::kUnroll>(count,
                                   [&]<class V>(int i) { V(filler).store(block.values + i); });
    return store_block<F>(block.values, args.y, outer * args.reduced + at, count);
  });
}

}  // namespace tape8::cpu
