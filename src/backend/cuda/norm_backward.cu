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
  Row<Real> dy_row(dy, cols, keeps ? kept + cols : nullptr);
  const Real count = static_cast<Real>(cols > 0 ? cols : 1);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    __syncthreads();
    x_row.begin(r);
    dy_row.begin(r);
    __syncthreads();
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

/// dy, or dy xhat: their column sums are dbeta and dgamma.
template <class Scalar>
struct NormSums {
  Source x, dy;
  std::int64_t cols = 0;
  const Scalar* mu = nullptr;
  const Scalar* rsigma = nullptr;
  const Scalar* shifts = nullptr;
  bool normalized = false;
  static constexpr int parts = 1;

  template <class Real>
  __device__ void values(std::int64_t row, std::int64_t col, int count,
                         Real (&out)[kVector]) const {
    dy.load(row * cols + col, count, out);
    if (!normalized) return;
    const Normalizer<Real> n{mu == nullptr ? Real{0} : mu[row], rsigma[row], shifts[row]};
    Real xs[kVector];
    x.load(row * cols + col, count, xs);
    for (int i = 0; i < count; ++i) out[i] *= n(xs[i]);
  }
};

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
    NormSums<Real> sums{Source(args.x), Source(args.dy),   args.cols, mu,
                        rsigma,         shifts.as<Real>(), false};
    if (args.dbeta != nullptr) {
      map_values<Real>(context, args.rows, args.cols, sums, {}, args.dbeta);
    }
    sums.normalized = true;
    if (args.dgamma != nullptr) {
      map_values<Real>(context, args.rows, args.cols, sums, {}, args.dgamma);
    }
  });
}

}  // namespace tape8::cuda
