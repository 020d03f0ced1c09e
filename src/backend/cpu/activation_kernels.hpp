#pragma once

#include <cstdint>

#include <tape8/core/activation_type.hpp>

#include "backend/cpu/cast_kernels.hpp"
#include "backend/cpu/vector_math.hpp"

namespace tape8::cpu {

/// A function's value and its derivative at the same x.
template <class V>
struct ValueAndDerivative {
  V value;
  V derivative;
};

// Each function gives value and derivative together: they share the costly part, and where only one
// is used the compiler drops the other. Large |x| gives the limits, a NaN gives NaN, in both.

struct LinearFunction {
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> operator()(const V& x) const {
    return {x, select(is_nan(x), x, V(1.0F))};
  }
};

struct GeluFunction {
  /// 0.5 (1 + tanh(u)) = s(2u), which keeps its precision in the negative tail.
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> operator()(const V& x) const {
    constexpr float kLinear = 1.59576912F;   // 2 sqrt(2 / pi)
    constexpr float kCubic = 0.0713548163F;  // 0.044715 of it
    constexpr float kLimit = 10.75F;         // 2u is +-106 there, and s 0 or 1
    const V low = max(V(-kLimit), x);
    const V bounded = min(V(kLimit), low);
    const V square = bounded * bounded;
    const Sigmoid<V> s = sigmoid_within(bounded * fma(square, V(kCubic), V(kLinear)));
    const V slope = fma(square, V(3.0F * kCubic), V(kLinear));
    return {low * s.value, fma(bounded * slope, s.derivative, s.value)};
  }
};

/// x s(alpha x), alpha > 0.
struct SwishFunction {
  float alpha;

  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> operator()(const V& x) const {
    constexpr float kLimit = 128.0F;  // s is 0 or 1 there
    const V z = max(V(-kLimit), min(V(kLimit), V(alpha) * x));
    const Sigmoid<V> s = sigmoid_within(z);
    // -Inf would give Inf * 0.
    return {max(V(-3.40282347e38F), x) * s.value, fma(z, s.derivative, s.value)};
  }
};

struct SigmoidFunction {
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> operator()(const V& x) const {
    const Sigmoid<V> s = sigmoid(x);
    return {s.value, s.derivative};
  }
};

struct ReluFunction {
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> operator()(const V& x) const {
    const V zero(0.0F);
    const auto off = x <= zero;
    return {select(off, zero, x), select(off, zero, select(is_nan(x), x, V(1.0F)))};
  }
};

struct SquaredReluFunction {
  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> operator()(const V& x) const {
    const V zero(0.0F);
    const V positive = select(x <= zero, zero, x);
    return {positive * positive, positive + positive};
  }
};

struct ClampedSiluFunction {
  float limit;
  float alpha;

  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> operator()(const V& x) const {
    const auto swish = SwishFunction{alpha}(min(V(limit), x));
    const V passed = select(x <= V(limit), swish.derivative, V(0.0F));
    return {swish.value, select(is_nan(x), x, passed)};
  }
};

struct ClampedLinearFunction {
  float limit;
  float offset;

  template <class V>
  [[gnu::always_inline]] ValueAndDerivative<V> operator()(const V& x) const {
    const V clipped = max(V(-limit), min(V(limit), x));
    const V passed = select(x <= clipped, select(clipped <= x, V(1.0F), V(0.0F)), V(0.0F));
    return {clipped + V(offset), select(is_nan(x), x, passed)};
  }
};

/// Calls visit(function) with the function object of an Act.
template <class Visit>
void visit_act(Act act, const ActivationParams& params, const Visit& visit) {
  const ClampedSwigluParams& clamped = params.clamped_swiglu;
  switch (act) {
    case Act::linear:
      return visit(LinearFunction{});
    case Act::gelu:
      return visit(GeluFunction{});
    case Act::silu:
      return visit(SwishFunction{1.0F});
    case Act::sigmoid:
      return visit(SigmoidFunction{});
    case Act::relu:
      return visit(ReluFunction{});
    case Act::squared_relu:
      return visit(SquaredReluFunction{});
    case Act::quick_gelu:
      return visit(SwishFunction{1.702F});
    case Act::clamped_silu:
      return visit(ClampedSiluFunction{clamped.limit, clamped.alpha});
    case Act::clamped_linear:
      return visit(ClampedLinearFunction{clamped.limit, clamped.glu_linear_offset});
  }
}

/// y *= act(x), or y = act(x) for the first part.
template <class F>
[[gnu::flatten]] void apply_act(Act act, const ActivationParams& params, int count, const float* x,
                                bool first, float* y) {
  visit_act(act, params, [&](const auto& function) {
    if (first) {
      for_each_vector<F, F::kUnroll>(
          count, [&]<class V>(int i) { function(V::load(x + i)).value.store(y + i); });
    } else {
      for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
        (V::load(y + i) * function(V::load(x + i)).value).store(y + i);
      });
    }
  });
}

/// block *= factors.
template <class F>
[[gnu::flatten]] void multiply_block(const float* factors, int count, float* block) {
  for_each_vector<F, F::kUnroll>(
      count, [&]<class V>(int i) { (V::load(block + i) * V::load(factors + i)).store(block + i); });
}

/// The same for part p, which may be a user's.
template <class F>
void apply_part(const ActivationParts& parts, int p, const ActivationParams& params, int count,
                const float* x, float* y) {
  if (parts.customs[p] == nullptr) return apply_act<F>(parts.acts[p], params, count, x, p == 0, y);
  if (p == 0) return parts.custom_value(*parts.customs[p], x, y, count);
  Block value;
  parts.custom_value(*parts.customs[p], x, value.values, count);
  fill_tail<F>(value.values, count, 0.0F);
  multiply_block<F>(value.values, count, y);
}

/// `count` values of y, to the next whole vector, from x at an offset and cols further for each
/// part.
template <class F>
void activation_block(const ActivationArgs& args, const ActivationParts& parts,
                      std::int64_t x_offset, int count, float* y) {
  Block x;
  for (int p = 0; p < parts.count; ++p) {
    load_block<F>(args.x, x_offset + p * args.cols, count, x.values);
    apply_part<F>(parts, p, args.params, count, x.values, y);
  }
}

template <class F>
AmaxBits activation(const ActivationArgs& args, const ActivationParts& parts, Tile tile) {
  return for_each_block<F>(tile, args.cols, [&](std::int64_t offset, std::int64_t c, int count) {
    Block y;
    activation_block<F>(args, parts, (offset - c) * parts.count + c, count, y.values);
    return store_block<F>(y.values, args.y, offset, count);
  });
}

template <class F>
void activation_tile(const ActivationArgs& args, const ActivationParts& parts, Tile tile,
                     TileValues to) {
  for_each_row_part<F>(tile, [&](std::int64_t r, std::int64_t c, int count) {
    activation_block<F>(args, parts, r * parts.count * args.cols + c, count,
                        tile_place<F>(to, tile, r, c));
  });
}

/// dx = dy * act'(x).
template <class F>
[[gnu::flatten]] void apply_derivative(Act act, const ActivationParams& params, int count,
                                       const float* x, const float* dy, float* dx) {
  visit_act(act, params, [&](const auto& function) {
    for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
      (V::load(dy + i) * function(V::load(x + i)).derivative).store(dx + i);
    });
  });
}

/// value = act(x), dx = dy * act'(x); value may be x.
template <class F>
[[gnu::flatten]] void apply_both(Act act, const ActivationParams& params, int count, const float* x,
                                 const float* dy, float* value, float* dx) {
  visit_act(act, params, [&](const auto& function) {
    for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
      const auto result = function(V::load(x + i));
      (V::load(dy + i) * result.derivative).store(dx + i);
      result.value.store(value + i);
    });
  });
}

/// x becomes the value of part p, where others need it, and dx = dy * its derivative.
template <class F>
void differentiate_part(const ActivationParts& parts, int p, const ActivationParams& params,
                        int count, const float* dy, float* x, float* dx) {
  if (const CustomActivation* custom = parts.customs[p]; custom != nullptr) {
    parts.custom_derivative(*custom, x, dx, count);
    fill_tail<F>(dx, count, 0.0F);
    multiply_block<F>(dy, count, dx);
    if (parts.count == 1) return;
    Block value;
    parts.custom_value(*custom, x, value.values, count);
    __builtin_memcpy(x, value.values, static_cast<std::size_t>(count) * sizeof(float));
  } else if (parts.count == 1) {
    apply_derivative<F>(parts.acts[p], params, count, x, dy, dx);
  } else {
    apply_both<F>(parts.acts[p], params, count, x, dy, x, dx);
  }
}

/// Calls store(p, dx) with `count` values of dx's row r from column c of part p on, and adds them
/// to dbias where it is wanted.
template <class F, class Store>
void activation_backward_block(const ActivationBackwardArgs& args, const ActivationParts& parts,
                               std::int64_t r, std::int64_t c, int count, float* dbias,
                               const Store& store) {
  Block dy, value[kMaxActivationParts], dx[kMaxActivationParts];
  load_block<F>(args.dy, r * args.cols + c, count, dy.values);
  for (int p = 0; p < parts.count; ++p) {
    float* x = value[p].values;
    load_block<F>(args.x, (r * parts.count + p) * args.cols + c, count, x);
    differentiate_part<F>(parts, p, args.params, count, dy.values, x, dx[p].values);
  }
  for (int p = 0; p < parts.count; ++p) {
    for (int q = 0; q < parts.count; ++q) {
      if (q != p) multiply_block<F>(value[q].values, count, dx[p].values);
    }
    if (dbias != nullptr) {
      fill_tail<F>(dx[p].values, count, 0.0F);
      add_block<F>(dx[p].values, count, dbias + p * args.cols + c);
    }
    store(p, dx[p].values);
  }
}

template <class F>
AmaxBits activation_backward(const ActivationBackwardArgs& args, const ActivationParts& parts,
                             Tile tile, float* dbias) {
  if (dbias != nullptr) clear_sums<F>(dbias, parts.count * args.cols);
  AmaxBits amax = 0;
  for_each_row_part<F>(tile, [&](std::int64_t r, std::int64_t c, int count) {
    activation_backward_block<F>(args, parts, r, c, count, dbias, [&](int p, float* dx) {
      const std::int64_t offset = (r * parts.count + p) * args.cols + c;
      amax = larger<F>(amax, store_block<F>(dx, args.dx, offset, count));
    });
  });
  return amax;
}

template <class F>
void activation_backward_tile(const ActivationBackwardArgs& args, const ActivationParts& parts,
                              Tile tile, TileValues to, std::int64_t part_offset, float* dbias) {
  for_each_row_part<F>(tile, [&](std::int64_t r, std::int64_t c, int count) {
    activation_backward_block<F>(args, parts, r, c, count, dbias, [&](int p, const float* dx) {
      copy_block<F>(dx, count, tile_place<F>(to, tile, r, c) + p * part_offset);
    });
  });
}

}  // namespace tape8::cpu
