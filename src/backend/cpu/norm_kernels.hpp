#pragma once

#include <cstdint>

#include "backend/cpu/cast_kernels.hpp"

namespace tape8::cpu {

/// Columns of a row that are held as f32 at a time. Longer rows are read anew by each pass.
inline constexpr int kRowBlock = 4096;

struct alignas(64) RowBlock {
  float values[kRowBlock];
};

/// Calls body(column, count) for each block of a row.
template <class F, class Body>
[[gnu::always_inline]] inline void for_each_row_block(std::int64_t cols, const Body& body) {
  for (std::int64_t c = 0; c < cols; c += kRowBlock) body(c, block_size<F>(c, cols, kRowBlock));
}

/// The gamma and beta of a row block, ready for use.
template <class F>
struct Affine {
  const float* gamma;
  const float* beta;
  float gamma_offset;

  void load(std::int64_t c, int count, float* gamma_block, float* beta_block) const {
    for (int i = 0; i < count; ++i) gamma_block[i] = gamma[c + i] + gamma_offset;
    fill_tail<F>(gamma_block, count, 0.0F);
    if (beta_block == nullptr) return;
    for (int i = 0; i < count; ++i) beta_block[i] = beta == nullptr ? 0.0F : beta[c + i];
    fill_tail<F>(beta_block, count, 0.0F);
  }
};

/// Sums of (x - center) and of its square over a block, 16 of each; x's tail is overwritten.
template <class F>
struct CenteredSums {
  F first, second;

  [[gnu::flatten]] CenteredSums(float* x, int count, float center) {
    fill_tail<F>(x, count, center);
    RowSum<F> sum, squares;
    for_each_summed<F>(
        count, [&]<class V, int kPart>(int i) __attribute__((always_inline)) {
          const V centered = V::load(x + i) - V(center);
          sum.template add<kPart>(centered);
          squares.template add_product<kPart>(centered, centered);
        });
    first = sum.lanes();
    second = squares.lanes();
  }
};

/// load_block() and 16 sums of its values.
template <class F, class From>
[[gnu::flatten]] F load_and_sum_as(const typename From::Storage* from, int count, float scale_inv,
                                   float* block) {
  typename From::Storage last[F::kLanes] = {};
  const int whole = count - count % F::kLanes;
  __builtin_memcpy(last, from + whole, static_cast<std::size_t>(count - whole) * sizeof(*from));
  RowSum<F> sum;
  for_each_summed<F>(
      count, [&]<class V, int kPart>(int i) __attribute__((always_inline)) {
        V x = From::template load<V>(i + V::kLanes <= count ? from + i : last);
        if constexpr (From::kScaled) x = x * V(scale_inv);
        x.store(block + i);
        sum.template add<kPart>(x);
      });
  return sum.lanes();
}

template <class F>
F load_and_sum(const Input& x, std::int64_t offset, int count, float* block) {
  return visit_format(x.dtype, [&]<class From>() {
    const auto* from = static_cast<const typename From::Storage*>(x.data) + offset;
    return load_and_sum_as<F, From>(from, count, factor<F>(x.scale_inv), block);
  });
}

/// Normalizers of one row (T is float), or of one in each lane.
template <class F, class T>
struct Normalizers {
  T center, rsigma, shift;

  /// From the mean (layernorm) and the sums of x - mean and of its square.
  Normalizers(const NormArgs& args, const T& mean, const T& first, const T& second) {
    const T count(static_cast<float>(args.cols > 0 ? args.cols : 1)), zero(0.0F);
    T variance = second / count, rest = zero;
    center = zero;
    if (args.type == NormType::layernorm) {
      // The sum of the deviations corrects the mean: it is zero but for the mean's rounding.
      const T correction = first / count;
      variance = not_below_zero(variance - correction * correction);
      center = mean + correction;
      rest = correction - (center - mean);
    }
    rsigma = T(1.0F) / square_root(variance + T(args.epsilon));
    shift = zero - rest * rsigma;
  }

 private:
  static float square_root(float x) { return __builtin_sqrtf(x); }
  static F square_root(const F& x) { return sqrt(x); }
  /// NaN stays.
  static float not_below_zero(float x) { return x < 0.0F ? 0.0F : x; }
  static F not_below_zero(const F& x) { return max(F(0.0F), x); }
};

/// The normalizer of a row, of which x holds the last block.
template <class F>
Normalizer load_row(const NormArgs& args, std::int64_t row, float* x) {
  float mean = 0.0F;
  if (args.type == NormType::layernorm) {
    for_each_row_block<F>(args.cols, [&](std::int64_t c, int count) {
      mean += reduce_add(load_and_sum<F>(args.x, row * args.cols + c, count, x));
    });
    mean = mean / static_cast<float>(args.cols > 0 ? args.cols : 1);
  }
  const bool loaded = args.type == NormType::layernorm && args.cols <= kRowBlock;
  float first = 0.0F, second = 0.0F;
  for_each_row_block<F>(args.cols, [&](std::int64_t c, int count) {
    if (!loaded) load_block<F>(args.x, row * args.cols + c, count, x);
    const CenteredSums<F> centered(x, count, mean);
    first += reduce_add(centered.first);
    second += reduce_add(centered.second);
  });
  const Normalizers<F, float> n(args, mean, first, second);
  return {n.center, n.rsigma, n.shift};
}

/// The same of up to 16 short rows, which x receives `stride` apart: what remains of their sums is
/// added up for all of them together.
template <class F>
void load_rows(const NormArgs& args, Range rows, std::int64_t stride, float* x,
               Normalizer* normalizers) {
  const int cols = static_cast<int>(args.cols), count = static_cast<int>(rows.end - rows.begin);
  F sums[F::kLanes], squares[F::kLanes];
  for (int i = 0; i < F::kLanes; ++i) sums[i] = squares[i] = F(0.0F);
  for (int i = 0; i < count; ++i) {
    sums[i] = load_and_sum<F>(args.x, (rows.begin + i) * args.cols, cols, x + i * stride);
  }
  F mean(0.0F);
  if (args.type == NormType::layernorm) {
    mean = reduce_add_each(sums) / F(static_cast<float>(cols > 0 ? cols : 1));
  }
  float means[F::kLanes];
  mean.store(means);
  for (int i = 0; i < count; ++i) {
    const CenteredSums<F> centered(x + i * stride, cols, means[i]);
    sums[i] = centered.first;
    squares[i] = centered.second;
  }
  const Normalizers<F, F> n(args, mean, reduce_add_each(sums), reduce_add_each(squares));
  float centers[F::kLanes], rsigmas[F::kLanes], shifts[F::kLanes];
  n.center.store(centers);
  n.rsigma.store(rsigmas);
  n.shift.store(shifts);
  for (int i = 0; i < count; ++i) normalizers[i] = {centers[i], rsigmas[i], shifts[i]};
}

/// Short rows are held as f32 together.
struct RowGroup {
  std::int64_t stride;  // from row to row
  std::int64_t rows;
};

template <class F>
RowGroup row_group(std::int64_t cols) {
  constexpr std::int64_t kMostValues = 1024;
  constexpr std::int64_t kLeastRows = 4;  // fewer have their sums added up faster one by one
  const std::int64_t vectors = cols > 0 ? (cols + F::kLanes - 1) / F::kLanes : 1;
  const std::int64_t stride = vectors * F::kLanes;
  const std::int64_t fit = kMostValues / stride;
  return {stride, fit < kLeastRows ? 1 : fit < F::kLanes ? fit : F::kLanes};
}

/// Values of a block of a row, xhat gamma + beta.
struct NormalizedBlock {
  Normalizer normalizer;
  const float* gamma;
  const float* beta;
  const float* x;

  template <class V>
  [[gnu::always_inline]] V operator()(std::int64_t i) const {
    const Normalizer& n = normalizer;
    const V xhat = fma(V::load(x + i) - V(n.center), V(n.rsigma), V(n.shift));
    return fma(xhat, V::load(gamma + i), V::load(beta + i));
  }
};

/// Calls store(values, row, column, count) with the NormalizedBlock of each block of the rows.
/// Their normalizers go to `normalizers` (null: not wanted), or are there.
template <class F, class Store>
void normalize_rows(const NormArgs& args, Range rows, Normalizer* normalizers, bool known,
                    const Store& store) {
  RowBlock x, gamma, beta;
  const bool one_block = args.cols <= kRowBlock;
  const RowGroup group = row_group<F>(args.cols);
  const Affine<F> affine{static_cast<const float*>(args.gamma),
                         static_cast<const float*>(args.beta),
                         args.zero_centered_gamma ? 1.0F : 0.0F};
  if (one_block) affine.load(0, static_cast<int>(args.cols), gamma.values, beta.values);
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += group.rows) {
    const std::int64_t end = begin + group.rows < rows.end ? begin + group.rows : rows.end;
    Normalizer own[F::kLanes];
    Normalizer* const n = normalizers == nullptr ? own : normalizers + (begin - rows.begin);
    if (!known && group.rows == 1) n[0] = load_row<F>(args, begin, x.values);
    if (!known && group.rows > 1) load_rows<F>(args, {begin, end}, group.stride, x.values, n);
    for (std::int64_t r = begin; r < end; ++r) {
      const Normalizer& normalizer = n[r - begin];
      if (args.mu != nullptr) static_cast<float*>(args.mu)[r] = normalizer.center;
      if (args.rsigma != nullptr) static_cast<float*>(args.rsigma)[r] = normalizer.rsigma;
      for_each_row_block<F>(args.cols, [&](std::int64_t c, int count) {
        float* const values = x.values + (one_block ? (r - begin) * group.stride : 0);
        if (known || !one_block) load_block<F>(args.x, r * args.cols + c, count, values);
        if (!one_block) affine.load(c, count, gamma.values, beta.values);
        store(NormalizedBlock{normalizer, gamma.values, beta.values, values}, r, c, count);
      });
    }
  }
}

template <class F>
AmaxBits norm(const NormArgs& args, Range rows) {
  AmaxBits amax = 0;
  normalize_rows<F>(args, rows, nullptr, false,
                    [&](const NormalizedBlock& values, std::int64_t r, std::int64_t c, int count) {
                      amax = larger<F>(amax,
                                       store_values<F>(values, args.y, r * args.cols + c, count));
                    });
  return amax;
}

/// A tile of whole rows. Their normalizers are kept, or known.
template <class F>
void norm_tile(const NormArgs& args, Tile tile, TileValues to, Normalizer* rows, bool rows_known) {
  normalize_rows<F>(args, tile.rows, rows, rows_known,
                    [&](const NormalizedBlock& values, std::int64_t r, std::int64_t c, int count) {
                      write_block<F>(values, count, tile_place<F>(to, tile, r, c));
                    });
}

/// With g = dy * gamma: the sums over a row that its dx needs.
template <class F>
struct BackwardSums {
  float g = 0.0F;
  float g_centered = 0.0F;  // g * (x - center)
  float centered = 0.0F;    // x - center

  [[gnu::flatten]] void add(const float* dy, float* x, const float* gamma, int count,
                            float center) {
    fill_tail<F>(x, count, center);
    RowSum<F> g_sum, product_sum, centered_sum;
    for_each_summed<F>(
        count, [&]<class V, int kPart>(int i) __attribute__((always_inline)) {
          const V dev = V::load(x + i) - V(center);
          const V scaled = V::load(dy + i) * V::load(gamma + i);
          g_sum.template add<kPart>(scaled);
          product_sum.template add_product<kPart>(scaled, dev);
          centered_sum.template add<kPart>(dev);
        });
    g += g_sum.total();
    g_centered += product_sum.total();
    centered += centered_sum.total();
  }
};

/// dx = rsigma (g - mean_g - xhat mean_g_xhat), in place of x; dgamma += dy xhat; dbeta += dy.
template <class F>
[[gnu::flatten]] void norm_backward_block(Normalizer n, float mean_g, float mean_g_xhat,
                                          const float* dy, const float* gamma, int count, float* x,
                                          float* dgamma, float* dbeta) {
  for_each_vector<F, F::kUnroll>(count, [&]<class V>(int i) {
    const V xhat = fma(V::load(x + i) - V(n.center), V(n.rsigma), V(n.shift));
    const V grad = V::load(dy + i);
    if (dgamma != nullptr) fma(grad, xhat, V::load(dgamma + i)).store(dgamma + i);
    if (dbeta != nullptr) (V::load(dbeta + i) + grad).store(dbeta + i);
    const V g = grad * V::load(gamma + i);
    (V(n.rsigma) * fma(V(0.0F) - xhat, V(mean_g_xhat), g - V(mean_g))).store(x + i);
  });
}

template <class F>
AmaxBits norm_backward(const NormBackwardArgs& args, Range rows, float* dgamma, float* dbeta) {
  if (dgamma != nullptr) clear_sums<F>(dgamma, args.cols);
  if (dbeta != nullptr) clear_sums<F>(dbeta, args.cols);
  RowBlock x, dy, gamma;
  const bool one_block = args.cols <= kRowBlock;
  const bool centered = args.type == NormType::layernorm;
  const float cols = static_cast<float>(args.cols > 0 ? args.cols : 1);
  const Affine<F> affine{static_cast<const float*>(args.gamma), nullptr,
                         args.zero_centered_gamma ? 1.0F : 0.0F};
  if (one_block) affine.load(0, static_cast<int>(args.cols), gamma.values, nullptr);
  AmaxBits amax = 0;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    bool loaded = false;
    const auto read = [&](std::int64_t c, int count) {
      if (loaded && one_block) return;
      load_block<F>(args.x, r * args.cols + c, count, x.values);
      load_block<F>(args.dy, r * args.cols + c, count, dy.values);
      if (!one_block) affine.load(c, count, gamma.values, nullptr);
      loaded = true;
    };
    Normalizer n;
    n.center = centered ? static_cast<const float*>(args.mu)[r] : 0.0F;
    n.rsigma = static_cast<const float*>(args.rsigma)[r];
    BackwardSums<F> sums;
    for_each_row_block<F>(args.cols, [&](std::int64_t c, int count) {
      read(c, count);
      sums.add(dy.values, x.values, gamma.values, count, n.center);
    });
    float mean_g = 0.0F;
    if (centered) {
      mean_g = sums.g / cols;
      n.shift = 0.0F - sums.centered / cols * n.rsigma;  // as in the forward pass
    }
    const float mean_g_xhat = (sums.g_centered * n.rsigma + sums.g * n.shift) / cols;
    for_each_row_block<F>(args.cols, [&](std::int64_t c, int count) {
      read(c, count);
      norm_backward_block<F>(n, mean_g, mean_g_xhat, dy.values, gamma.values, count, x.values,
                             dgamma == nullptr ? nullptr : dgamma + c,
                             dbeta == nullptr ? nullptr : dbeta + c);
      amax = larger<F>(amax, store_block<F>(x.values, args.dx, r * args.cols + c, count));
    });
  }
  return amax;
}

}  // namespace tape8::cpu
