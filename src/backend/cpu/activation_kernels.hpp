#pragma once

#include <cstdint>

#include "backend/cpu/activation_functions.hpp"
#include "backend/cpu/cast_kernels.hpp"

namespace tape8::cpu {

/// An activation of one part: function(x).
template <class Function, class X>
struct Activated {
  Function function;
  X x;

  template <class V>
  [[gnu::always_inline]] V operator()(std::int64_t i) const {
    return function.value(x.template operator()<V>(i));
  }
};
template <class Function, class X>
Activated(Function, X) -> Activated<Function, X>;

template <class Values, class Factors>
struct Multiplied {
  Values values;
  Factors factors;

  template <class V>
  [[gnu::always_inline]] V operator()(std::int64_t i) const {
    return values.template operator()<V>(i) * factors.template operator()<V>(i);
  }
};
template <class Values, class Factors>
Multiplied(Values, Factors) -> Multiplied<Values, Factors>;

/// y *= act(x), or y = act(x) for the first part.
template <class F>
void apply_act(Act act, const ActivationParams& params, int count, const float* x, bool first,
               float* y) {
  visit_act(act, params, [&](const auto& function) {
    const Activated values{function, MemoryValues<F32Format>{x, 1.0F}};
    if (first) {
      write_block<F>(values, count, y);
    } else {
      write_block<F>(Multiplied{MemoryValues<F32Format>{y, 1.0F}, values}, count, y);
    }
  });
}

/// block *= factors.
template <class F>
void multiply_block(const float* factors, int count, float* block) {
  using Values = MemoryValues<F32Format>;
  write_block<F>(Multiplied{Values{block, 1.0F}, Values{factors, 1.0F}}, count, block);
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

/// Writes y, whole vectors of them, of one function of x, times gate if there is one.
template <class F, class X>
void write_simple(Act act, const ActivationParams& params, X x, const X* gate, int count,
                  float* y) {
  visit_act(act, params, [&](const auto& function) {
    const Activated values{function, x};
    if (gate == nullptr) {
      write_block<F>(values, count, y);
    } else {
      write_block<F>(Multiplied{values, *gate}, count, y);
    }
  });
}

/// `count` values of y, to the next whole vector, from x at an offset and cols further for each
/// part.
template <class F>
void activation_block(const ActivationArgs& args, const ActivationParts& parts,
                      std::int64_t x_offset, int count, float* y) {
  const bool gated =
      parts.count == 2 && parts.customs[1] == nullptr && parts.acts[1] == Act::linear;
  const bool simple = parts.customs[0] == nullptr && (parts.count == 1 || gated);
  if (simple && args.x.dtype == DType::bf16 && count % F::kLanes == 0) {
    using X = MemoryValues<Bf16Format>;
    const auto* x = static_cast<const std::uint16_t*>(args.x.data) + x_offset;
    const X gate{x + (gated ? args.cols : 0), 1.0F};
    return write_simple<F>(parts.acts[0], args.params, X{x, 1.0F}, gated ? &gate : nullptr, count,
                           y);
  }
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

template <class F, class Function>
[[gnu::flatten]] void write_derivative(Function function, int count, const float* x,
                                       const float* dy, float* dx) {
  for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
    (V::load(dy + i) * function.both(V::load(x + i)).derivative).store(dx + i);
  });
}

template <class F, class Function>
[[gnu::flatten]] void write_both(Function function, int count, const float* x, const float* dy,
                                 float* value, float* dx) {
  for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
    const auto result = function.both(V::load(x + i));
    (V::load(dy + i) * result.derivative).store(dx + i);
    result.value.store(value + i);
  });
}

/// dx = dy * act'(x).
template <class F>
void apply_derivative(Act act, const ActivationParams& params, int count, const float* x,
                      const float* dy, float* dx) {
  visit_act(act, params,
            [&](const auto& function) { write_derivative<F>(function, count, x, dy, dx); });
}

/// value = act(x), dx = dy * act'(x); value may be x.
template <class F>
void apply_both(Act act, const ActivationParams& params, int count, const float* x, const float* dy,
                float* value, float* dx) {
  visit_act(act, params,
            [&](const auto& function) { write_both<F>(function, count, x, dy, value, dx); });
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
