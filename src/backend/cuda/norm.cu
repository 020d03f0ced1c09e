#include "backend/cuda/block_values.hpp"
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

template <class Real>
Affine<Real> affine_of(const NormArgs& args) {
  return {static_cast<const Real*>(args.gamma), static_cast<const Real*>(args.beta),
          args.zero_centered_gamma};
}

/// x of columns `col` and on becomes y.
template <class Real>
__device__ void normalize(const Normalizer<Real>& n, const Affine<Real>& affine, std::int64_t col,
                          int count, Real (&values)[kVector]) {
  for (int i = 0; i < kVector; ++i) {
    if (i < count) values[i] = n(values[i]) * affine.gamma_at(col + i) + affine.beta_at(col + i);
  }
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
    row.begin(r);
    const Normalizer<Real> n = row_statistics(row, cols, centered, epsilon, shared);
    if (threadIdx.x == 0) {
      if (mu != nullptr) mu[r] = n.center;
      if (rsigma != nullptr) rsigma[r] = n.rsigma;
    }
    row.for_each([&](std::int64_t c, int count) {
      Real values[kVector];
      row.load(c, count, values);
      normalize(n, affine, c, count, values);
      writer.store(r * cols + c, count, values);
    });
  }
  writer.note();
}

/// The statistics alone, and what normalizes each row. Bytes a value: x once.
__global__ void norm_statistics_kernel(std::int64_t rows, std::int64_t cols, bool centered,
                                       float epsilon, bool keeps, Source x,
                                       Normalizer<float>* normalizers, float* mu, float* rsigma) {
  TAPE8_SHARED(float, shared, [kWarp]);
  Row<float> row(x, cols, keeps ? dynamic_shared<float>() : nullptr);
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    row.begin(r);
    const Normalizer<float> n = row_statistics(row, cols, centered, epsilon, shared);
    if (threadIdx.x != 0) continue;
    normalizers[r] = n;
    if (mu != nullptr) mu[r] = n.center;
    if (rsigma != nullptr) rsigma[r] = n.rsigma;
  }
}

/// y of rows whose statistics are known.
struct NormValues {
  Source x;
  std::int64_t cols = 0;
  const Normalizer<float>* normalizers = nullptr;
  Affine<float> affine;
  static constexpr int parts = 1;

  __device__ void rows(std::int64_t row, std::int64_t col, const int (&counts)[kLaneRows],
                       float (&out)[kLaneRows][kVector]) const {
    x.load_rows(row * cols + col, cols, counts, out);
    TAPE8_UNROLL
    for (int j = 0; j < kLaneRows; ++j) {
      if (counts[j] > 0) normalize(normalizers[row + j], affine, col, counts[j], out[j]);
    }
  }
};

/// A tile has parts of rows: the statistics come first, for which x is read once more.
void norm_with_blocks(Context& context, const NormArgs& args) {
  const Workspace normalizers(context,
                              sizeof(Normalizer<float>) * static_cast<std::size_t>(args.rows));
  const LaunchConfig config = norm_config<float>(context, args.rows, args.cols, 1);
  launch(norm_statistics_kernel, config, args.rows, args.cols, args.type == NormType::layernorm,
         args.epsilon, config.shared_bytes > 0, Source(args.x), normalizers.as<Normalizer<float>>(),
         static_cast<float*>(args.mu), static_cast<float*>(args.rsigma));
  map_blocks(context, args.rows, args.cols,
             NormValues{Source(args.x), args.cols, normalizers.as<Normalizer<float>>(),
                        affine_of<float>(args)},
             args.y);
}

}  // namespace

void norm(Context& context, const NormArgs& args) {
  const bool f64 = args.x.dtype == DType::f64;
  check_operands("norm", f64, {args.x}, {args.y}, BlockSupport::outputs);
  if (args.y.blocks != nullptr) return norm_with_blocks(context, args);
  clear_amax(args.y.amax, context.stream());
  with_real(f64, [&]<class Real>(Real) {
    const LaunchConfig config = norm_config<Real>(context, args.rows, args.cols, 1);
    launch(norm_kernel<Real>, config, args.rows, args.cols, args.type == NormType::layernorm,
           static_cast<Real>(args.epsilon), config.shared_bytes > 0, Source(args.x),
           affine_of<Real>(args), Sink(args.y), static_cast<Real*>(args.mu),
           static_cast<Real*>(args.rsigma));
  });
}

}  // namespace tape8::cuda
