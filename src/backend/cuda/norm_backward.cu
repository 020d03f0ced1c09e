#include "backend/cuda/kernels.hpp"
#include "backend/cuda/map_values.hpp"
#include "backend/cuda/norm_rows.hpp"

namespace tape8::cuda {
namespace {

/// dx, and what the sums over rows need to normalize x. With g = dy gamma:
/// dx = rsigma (g - mean(g) - xhat mean(g xhat)), without mean(g) where nothing is centered.
/// Bytes a value: x, dy and dx once, where the rows are kept.
template <class Real>
__global__ void norm_backward_kernel(std::int64_t rows, std::int64_t cols, bool centered,
                                     bool keeps, Source x, Source dy, Affine<Real> affine,
                                     const Real* mu, const Real* rsigma, Sink dx, Real* shifts) {
  TAPE8_SHARED(Real, shared, [kWarp]);
  Writer writer(dx);
  Real* const kept = keeps ? dynamic_shared<Real>() : nullptr;
  Row<Real> x_row(x, cols, kept);
  Row<Real> dy_row(dy, cols, keeps ? kept + kept_values(cols) : nullptr);
  const Real count = static_cast<Real>(cols > 0 ? cols : 1);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    x_row.begin(r);
    dy_row.begin(r);
    Normalizer<Real> n{centered ? mu[r] : Real{0}, rsigma[r], 0};
    Real g_sum = 0, product_sum = 0, deviations = 0;
    x_row.for_each([&](std::int64_t c, int valid) {
      Real xs[kVector], dys[kVector];
      x_row.load(c, valid, xs);
      dy_row.load(c, valid, dys);
      for (int i = 0; i < valid; ++i) {
        const Real g = dys[i] * affine.gamma_at(c + i);
        const Real deviation = xs[i] - n.center;
        g_sum += g;
        product_sum += g * deviation;
        deviations += deviation;
      }
    });
    g_sum = block_sum(g_sum, shared);
    product_sum = block_sum(product_sum, shared);
    Real mean_g = 0;
    if (centered) {
      mean_g = g_sum / count;
      n.shift = -(block_sum(deviations, shared) / count * n.rsigma);  // as in the forward pass
    }
    const Real mean_g_xhat = (product_sum * n.rsigma + g_sum * n.shift) / count;
    if (threadIdx.x == 0) shifts[r] = n.shift;
    x_row.for_each([&](std::int64_t c, int valid) {
      Real xs[kVector], dys[kVector];
      x_row.load(c, valid, xs);
      dy_row.load(c, valid, dys);
      for (int i = 0; i < valid; ++i) {
        const Real g = dys[i] * affine.gamma_at(c + i);
        xs[i] = n.rsigma * (g - mean_g - n(xs[i]) * mean_g_xhat);
      }
      writer.store(r * cols + c, valid, xs);
    });
  }
  writer.note();
}

/// dbeta and dgamma, the column sums of dy and of dy xhat, over each `group_rows` rows: [groups,
/// cols] of either, unless it is null. A thread has a vector of columns. Bytes a value: x and dy
/// once.
template <class Real>
__global__ void norm_sums_kernel(std::int64_t rows, std::int64_t cols, std::int64_t group_rows,
                                 Source x, Source dy, const Real* mu, const Real* rsigma,
                                 const Real* shifts, Real* dgamma, Real* dbeta) {
  const std::int64_t col =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kVector;
  if (col >= cols) return;
  const int count = cols - col < kVector ? static_cast<int>(cols - col) : kVector;
  const std::int64_t begin = blockIdx.y * group_rows;
  const std::int64_t end = begin + group_rows < rows ? begin + group_rows : rows;
  Real gamma_sums[kVector] = {}, beta_sums[kVector] = {};
  for (std::int64_t row = begin; row < end; ++row) {
    Real xs[kVector], dys[kVector];
    x.load(row * cols + col, count, xs);
    dy.load(row * cols + col, count, dys);
    const Normalizer<Real> n{mu == nullptr ? Real{0} : mu[row], rsigma[row], shifts[row]};
    for (int i = 0; i < kVector; ++i) {
      gamma_sums[i] += dys[i] * n(xs[i]);
      beta_sums[i] += dys[i];
    }
  }
  const std::int64_t place = blockIdx.y * cols + col;
  for (int i = 0; i < kVector; ++i) {
    if (i >= count) break;
    if (dgamma != nullptr) dgamma[place + i] = gamma_sums[i];
    if (dbeta != nullptr) dbeta[place + i] = beta_sums[i];
  }
}

template <class Real>
void add_up(Context& context, const NormBackwardArgs& args, const Real* mu, const Real* shifts) {
  if (args.dgamma == nullptr && args.dbeta == nullptr) return;
  constexpr unsigned kThreads = 64;
  const RowGroups groups = RowGroups::of(args.rows);
  const std::int64_t partials = groups.count * args.cols;
  const Workspace workspace(context, 2 * sizeof(Real) * static_cast<std::size_t>(partials));
  Real* const dgamma = args.dgamma == nullptr ? nullptr : workspace.as<Real>();
  Real* const dbeta = args.dbeta == nullptr ? nullptr : workspace.as<Real>() + partials;
  const std::int64_t vectors = divide_up(args.cols, std::int64_t{kVector});
  launch(norm_sums_kernel<Real>,
         {.grid = dim3(blocks_for(vectors, kThreads), static_cast<unsigned>(groups.count)),
          .block = dim3(kThreads),
          .stream = context.stream()},
         args.rows, args.cols, groups.rows, Source(args.x), Source(args.dy), mu,
         static_cast<const Real*>(args.rsigma), shifts, dgamma, dbeta);
  if (dgamma != nullptr) add_groups(context, groups, args.cols, dgamma, args.dgamma);
  if (dbeta != nullptr) add_groups(context, groups, args.cols, dbeta, args.dbeta);
}

}  // namespace

void norm_backward(Context& context, const NormBackwardArgs& args) {
  const bool f64 = args.x.dtype == DType::f64;
  check_operands("norm_backward", f64, {args.dy, args.x}, {args.dx});
  clear_amax(args.dx.amax, context.stream());
  const bool centered = args.type == NormType::layernorm;
  with_real(f64, [&]<class Real>(Real) {
    const auto* mu = centered ? static_cast<const Real*>(args.mu) : nullptr;
    const auto* rsigma = static_cast<const Real*>(args.rsigma);
    const Workspace shifts(context, sizeof(Real) * static_cast<std::size_t>(args.rows));
    const LaunchConfig config = norm_config<Real>(context, args.rows, args.cols, 2);
    launch(norm_backward_kernel<Real>, config, args.rows, args.cols, centered,
           config.shared_bytes > 0, Source(args.x), Source(args.dy),
           Affine<Real>{static_cast<const Real*>(args.gamma), nullptr, args.zero_centered_gamma},
           mu, rsigma, Sink(args.dx), shifts.as<Real>());
    add_up(context, args, mu, shifts.as<Real>());
  });
}

}  // namespace tape8::cuda
