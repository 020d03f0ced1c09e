#pragma once

#include <cstdint>

#include "backend/cpu/cast_kernels.hpp"

namespace tape8::cpu {

// Elementwise ops that are a load, one operation and a store.

template <class F, class Operation>
AmaxBits binary_block(const BinaryArgs& args, Range elements, const Operation& operation) {
  return for_each_block<F>({{0, 1}, elements}, 0, [&](std::int64_t, std::int64_t at, int count) {
    Block a, b;
    load_block<F>(args.a, at, count, a.values);
    load_block<F>(args.b, at, count, b.values);
    for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
      operation(V::load(a.values + i), V::load(b.values + i)).store(a.values + i);
    });
    return store_block<F>(a.values, args.y, at, count);
  });
}

template <class F>
AmaxBits binary(const BinaryArgs& args, Range elements) {
  switch (args.op) {
    case BinaryOp::add:
      return binary_block<F>(args, elements, [](const auto& a, const auto& b) { return a + b; });
    case BinaryOp::sub:
      return binary_block<F>(args, elements, [](const auto& a, const auto& b) { return a - b; });
    case BinaryOp::mul:
      return binary_block<F>(args, elements, [](const auto& a, const auto& b) { return a * b; });
  }
  return 0;
}

template <class F>
AmaxBits scale(const ScaleArgs& args, Range elements) {
  const auto factor = static_cast<float>(args.factor);
  return for_each_block<F>({{0, 1}, elements}, 0, [&](std::int64_t, std::int64_t at, int count) {
    Block x;
    load_block<F>(args.x, at, count, x.values);
    for_each_vector<F, F::kUnroll>(
        count, [&]<class V>(int i) { (V::load(x.values + i) * V(factor)).store(x.values + i); });
    return store_block<F>(x.values, args.y, at, count);
  });
}

/// `keep` says of each element of the block that begins at `at` whether it is kept.
template <class F>
AmaxBits dropout(const DropoutArgs& args, KeepElements keep, Range elements) {
  const float kept = 1.0F - args.rate;
  return for_each_block<F>({{0, 1}, elements}, 0, [&](std::int64_t, std::int64_t at, int count) {
    Block x, mask;
    load_block<F>(args.x, at, count, x.values);
    keep(args, at, count, mask.values);
    fill_tail<F>(mask.values, count, 0.0F);
    for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
      const V scaled = V::load(x.values + i) / V(kept);
      select(V(1.0F) <= V::load(mask.values + i), scaled, V(0.0F)).store(x.values + i);
    });
    return store_block<F>(x.values, args.y, at, count);
  });
}

template <class F>
AmaxBits mse_backward(const MseBackwardArgs& args, Range elements) {
  const float factor = static_cast<float>(2.0 * static_cast<const float*>(args.dloss)[0] /
                                          static_cast<double>(args.count));
  return for_each_block<F>({{0, 1}, elements}, 0, [&](std::int64_t, std::int64_t at, int count) {
    Block prediction, target;
    load_block<F>(args.prediction, at, count, prediction.values);
    load_block<F>(args.target, at, count, target.values);
    for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
      const V difference = V::load(prediction.values + i) - V::load(target.values + i);
      (difference * V(factor)).store(prediction.values + i);
    });
    return store_block<F>(prediction.values, args.dprediction, at, count);
  });
}

}  // namespace tape8::cpu
