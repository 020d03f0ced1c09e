#include "backend/cuda/kernels.hpp"
#include "backend/cuda/norm_rows.hpp"

namespace tape8::cuda {
namespace {

/// By all threads of a block: the mean first, then deviations from it.
template <class Real>
__device__ Normalizer<Real> row_statistics(const Row<Real>& row, std::int64_t cols, bool centered,
                                           Real epsilon, Real* shared) {
  const Real count = static_cast<Real>(cols > 0 ? cols : 1);
  Real mean = 0;
  if (centered) {
    Real sum = 0;
    row.for_each([&](std::int64_t c, int n) {
      Real x[kVector];
      row.load(c, n, x);
      for (int i = 0; i < n; ++i) sum += x[i];
    });
    mean = block_sum(sum, shared) / count;
  }
  Real sum = 0, squares = 0;
  row.for_each([&](std::int64_t c, int n) {
    Real x[kVector];
    row.load(c, n, x);
    for (int i = 0; i < n; ++i) {
      const Real deviation = x[i] - mean;
      sum += deviation;
      squares += deviation * deviation;
    }
  });
  squares = block_sum(squares, shared);
  Real variance = squares / count;
  Normalizer<Real> result{mean, 0, 0};
  Real rest = 0;
  if (centered) {
    // The deviations' own mean is zero but for the mean's rounding, which it corrects.
    const Real correction = block_sum(sum, shared) / count;
    const Real exact = variance - correction * correction;
    variance = exact < 0 ? Real{0} : exact;
    result.center = mean + correction;
    rest = correction - (result.center - mean);
  }
  result.rsigma = inverse_sqrt(variance + epsilon);
  result.shift = -rest * result.rsigma;
  return result;
}

/// Bytes a value: x and y once, where the row is kept.
template <class Real>
__global__ void norm_kernel(std::int64_t rows, std::int64_t cols, bool centered, Real epsilon,
                            bool keeps, Source x, Affine<Real> affine, Sink y, Real* mu,
                            Real* rsigma) {
  TAPE8_SHARED(Real, shared, [kWarp]);
  Writer writer(y);
  Row<Real> row(x, cols, keeps ? dynamic_shared<Real>() : nullptr);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    __syncthreads();
    row.begin(r);
    __syncthreads();
    const Normalizer<Real> n = row_statistics(row, cols, centered, epsilon, shared);
    if (threadIdx.x == 0) {
      if (mu != nullptr) mu[r] = n.center;
      if (rsigma != nullptr) rsigma[r] = n.rsigma;
    }
    row.for_each([&](std::int64_t c, int count) {
      Real values[kVector];
      row.load(c, count, values);
      for (int i = 0; i < count; ++i) {
        values[i] = n(values[i]) * affine.gamma_at(c + i) + affine.beta_at(c + i);
      }
      writer.store(r * cols + c, count, values);
    });
  }
  writer.note();
}

}  // namespace

void norm(Context& context, const NormArgs& args) {
  const bool f64 = args.x.dtype == DType::f64;
  check_operands("norm", f64, {args.x}, {args.y});
  clear_amax(args.y.amax, context.stream());
  with_real(f64, [&]<class Real>(Real) {
    const LaunchConfig config = norm_config<Real>(context, args.rows, args.cols, 1);
    launch(norm_kernel<Real>, config, args.rows, args.cols, args.type == NormType::layernorm,
           static_cast<Real>(args.epsilon), config.shared_bytes > 0, Source(args.x),
           Affine<Real>{static_cast<const Real*>(args.gamma), static_cast<const Real*>(args.beta),
                        args.zero_centered_gamma},
           Sink(args.y), static_cast<Real*>(args.mu), static_cast<Real*>(args.rsigma));
  });
}

}  // namespace tape8::cuda
