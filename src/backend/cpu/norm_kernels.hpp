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

/// sums of (x - center) and of its square over a block; x's tail is overwritten.
template <class F>
struct CenteredSums {
  float first = 0.0F;
  float second = 0.0F;

  [[gnu::flatten]] void add(float* x, int count, float center) {
    fill_tail<F>(x, count, center);
    RowSum<F> sum, squares;
    for_each_vector<F, RowSum<F>::kWidth>(count, [&]<class V>(int i) {
      const V centered = V::load(x + i) - V(center);
      sum.add(centered, i);
      squares.add_product(centered, centered, i);
    });
    first += sum.total();
    second += squares.total();
  }
};

/// load_block() and the sum of its values.
template <class F, class From>
[[gnu::flatten]] float load_and_sum_as(const typename From::Storage* from, int count,
                                       float scale_inv, float* block) {
  RowSum<F> sum;
  const auto take = [&]<class V>(const typename From::Storage* memory, int i) {
    V x = From::template load<V>(memory);
    if constexpr (From::kScaled) x = x * V(scale_inv);
    x.store(block + i);
    sum.add(x, i);
  };
  const int whole = count - count % F::kLanes;
  for_each_vector<F, RowSum<F>::kWidth>(
      whole, [&]<class V>(int i) { take.template operator()<V>(from + i, i); });
  if (whole < count) {
    typename From::Storage last[F::kLanes] = {};
    __builtin_memcpy(last, from + whole, static_cast<std::size_t>(count - whole) * sizeof(*from));
    take.template operator()<F>(last, whole);
  }
  return sum.total();
}

template <class F>
float load_and_sum(const Input& x, std::int64_t offset, int count, float* block) {
  return visit_format(x.dtype, [&]<class From>() {
    const auto* from = static_cast<const typename From::Storage*>(x.data) + offset;
    return load_and_sum_as<F, From>(from, count, factor<F>(x.scale_inv), block);
  });
}

/// Statistics of one row; read(column, count) makes x the block's values, read_sum(column, count)
/// too, and gives their sum.
template <class F, class Read, class ReadSum>
Normalizer row_statistics(const NormArgs& args, float* x, const Read& read,
                          const ReadSum& read_sum) {
  const float count = static_cast<float>(args.cols > 0 ? args.cols : 1);
  float mean = 0.0F;
  if (args.type == NormType::layernorm) {
    float sum = 0.0F;
    for_each_row_block<F>(args.cols, [&](std::int64_t c, int n) { sum += read_sum(c, n); });
    mean = sum / count;
  }
  CenteredSums<F> sums;
  for_each_row_block<F>(args.cols, [&](std::int64_t c, int n) {
    read(c, n);
    sums.add(x, n, mean);
  });
  float variance = sums.second / count;
  Normalizer result;
  float rest = 0.0F;
  if (args.type == NormType::layernorm) {
    // The sum of the deviations corrects the mean: it is zero but for the mean's rounding.
    const float correction = sums.first / count;
    const float exact = variance - correction * correction;
    variance = exact > 0.0F || exact != exact ? exact : 0.0F;
    result.center = mean + correction;
    rest = correction - (result.center - mean);
  }
  result.rsigma = 1.0F / __builtin_sqrtf(variance + args.epsilon);
  result.shift = 0.0F - rest * result.rsigma;
  return result;
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
  const Affine<F> affine{static_cast<const float*>(args.gamma),
                         static_cast<const float*>(args.beta),
                         args.zero_centered_gamma ? 1.0F : 0.0F};
  if (one_block) affine.load(0, static_cast<int>(args.cols), gamma.values, beta.values);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    bool loaded = false;
    const auto read = [&](std::int64_t c, int count) {
      if (loaded && one_block) return;
      load_block<F>(args.x, r * args.cols + c, count, x.values);
      loaded = true;
    };
    const auto read_sum = [&](std::int64_t c, int count) {
      loaded = true;
      return load_and_sum<F>(args.x, r * args.cols + c, count, x.values);
    };
    Normalizer* const kept = normalizers == nullptr ? nullptr : normalizers + (r - rows.begin);
    const Normalizer n = known ? *kept : row_statistics<F>(args, x.values, read, read_sum);
    if (kept != nullptr) *kept = n;
    if (args.mu != nullptr) static_cast<float*>(args.mu)[r] = n.center;
    if (args.rsigma != nullptr) static_cast<float*>(args.rsigma)[r] = n.rsigma;
    for_each_row_block<F>(args.cols, [&](std::int64_t c, int count) {
      read(c, count);
      if (!one_block) affine.load(c, count, gamma.values, beta.values);
      store(NormalizedBlock{n, gamma.values, beta.values, x.values}, r, c, count);
    });
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
    for_each_vector<F, RowSum<F>::kWidth>(count, [&]<class V>(int i) {
      const V dev = V::load(x + i) - V(center);
      const V scaled = V::load(dy + i) * V::load(gamma + i);
      g_sum.add(scaled, i);
      product_sum.add_product(scaled, dev, i);
      centered_sum.add(dev, i);
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
