// Sums in f64: every f32 term is exact there, and one rounding to the result's type is left. Parts
// of a sum are written to a workspace and added by a second kernel; which parts there are depends
// on the sizes alone.

#include "backend/cuda/flat.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/sums.hpp"

namespace tape8::cuda {
namespace {

/// What is summed, of values that are computed in Real.
struct Values {
  Source x;

  template <class Real>
  __device__ void load(std::int64_t at, int valid, double (&terms)[kVector]) const {
    Real values[kVector];
    x.load(at, valid, values);
    for (int i = 0; i < kVector; ++i) terms[i] = static_cast<double>(values[i]);
  }
};

/// Products of f32 values are exact in f64.
struct Squares {
  Source x;

  template <class Real>
  __device__ void load(std::int64_t at, int valid, double (&terms)[kVector]) const {
    Values{x}.load<Real>(at, valid, terms);
    for (double& term : terms) term *= term;
  }
};

struct SquaredErrors {
  Source prediction, target;

  template <class Real>
  __device__ void load(std::int64_t at, int valid, double (&terms)[kVector]) const {
    Real a[kVector], b[kVector];
    prediction.load(at, valid, a);
    target.load(at, valid, b);
    for (int i = 0; i < kVector; ++i) {
      const Real error = a[i] - b[i];
      terms[i] = static_cast<double>(error * error);
    }
  }
};

/// How a sum is cut.
struct Parts {
  std::int64_t count = 1;  // parts
  std::int64_t size = 0;   // terms of a part; the last may have fewer

  /// About `least` terms a part, in whole `unit`s, and no more parts than `most`.
  static Parts of(std::int64_t terms, std::int64_t least, std::int64_t most, std::int64_t unit) {
    const std::int64_t wanted = std::clamp<std::int64_t>(divide_up(terms, least), 1, most);
    const std::int64_t size =
        std::max<std::int64_t>(divide_up(divide_up(terms, wanted), unit) * unit, unit);
    return {std::max<std::int64_t>(divide_up(terms, size), 1), size};
  }
};

/// partials[row * parts + part], a warp each. Bytes a term: what it is made of.
template <class Real, class Terms>
__global__ void sum_rows_kernel(std::int64_t rows, std::int64_t cols, Parts parts, Terms terms,
                                double* partials) {
  constexpr int kWarpsOfBlock = kFlatThreads / kWarp;
  const auto lane = static_cast<std::int64_t>(threadIdx.x % kWarp);
  const std::int64_t tasks = rows * parts.count;
  std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.x / kWarp;
  for (; task < tasks; task += static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock) {
    const std::int64_t row = task / parts.count * cols;
    const std::int64_t begin = task % parts.count * parts.size;
    const std::int64_t end = begin + parts.size < cols ? begin + parts.size : cols;
    double sum = 0.0;
    for (std::int64_t at = begin + lane * kVector; at < end; at += kWarp * kVector) {
      double values[kVector];
      const int valid = end - at < kVector ? static_cast<int>(end - at) : kVector;
      terms.template load<Real>(row + at, valid, values);
      for (const double value : values) sum += value;
    }
    sum = warp_sum(sum);
    if (lane == 0) partials[task] = sum;
  }
}

/// y[row] = factor * the sum of the row's partials / divisor, a warp each.
template <class Real>
__global__ void finish_rows_kernel(std::int64_t rows, std::int64_t parts, const double* partials,
                                   double factor, double divisor, Sink y) {
  constexpr int kWarpsOfBlock = kFlatThreads / kWarp;
  const auto lane = static_cast<std::int64_t>(threadIdx.x % kWarp);
  Writer writer(y);
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.x / kWarp;
  for (; row < rows; row += static_cast<std::int64_t>(gridDim.x) * kWarpsOfBlock) {
    double sum = 0.0;
    for (std::int64_t part = lane; part < parts; part += kWarp) {
      sum += partials[row * parts + part];
    }
    sum = warp_sum(sum);
    const Real value[1] = {static_cast<Real>(sum * factor / divisor)};
    if (lane == 0) writer.store(row, 1, value);
  }
  writer.note();
}

inline constexpr int kColumns = 4;  // of a thread
inline constexpr int kTileColumns = kColumns * kWarp;
inline constexpr int kTileRows = kFlatThreads / kWarp;  // a block's warps, each a row at a time

/// partials[(o * parts + part) * inner + i]: a block sums a tile of columns over a part of the
/// rows, its warps each every eighth row. Bytes a term: x.
template <class Real>
__global__ void sum_columns_kernel(std::int64_t outer, std::int64_t rows, std::int64_t inner,
                                   Parts parts, Source x, double* partials) {
  TAPE8_SHARED(double, sums, [kTileRows][kTileColumns]);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int warp = static_cast<int>(threadIdx.x / kWarp);
  const std::int64_t tiles = (inner + kTileColumns - 1) / kTileColumns;
  const std::int64_t tasks = outer * parts.count * tiles;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const std::int64_t slice = task / tiles;  // o * parts + part
    const std::int64_t column = task % tiles * kTileColumns + lane * kColumns;
    const std::int64_t left = inner - column;
    const int valid = left < 0 ? 0 : left < kColumns ? static_cast<int>(left) : kColumns;
    const std::int64_t begin = slice % parts.count * parts.size;
    const std::int64_t end = begin + parts.size < rows ? begin + parts.size : rows;
    double own[kColumns] = {};
    for (std::int64_t r = begin + warp; r < end && valid > 0; r += kTileRows) {
      Real values[kColumns];
      x.load((slice / parts.count * rows + r) * inner + column, valid, values);
      for (int i = 0; i < kColumns; ++i) own[i] += static_cast<double>(values[i]);
    }
    for (int i = 0; i < kColumns; ++i) sums[warp][lane * kColumns + i] = own[i];
    __syncthreads();
    const auto tile_column = static_cast<int>(threadIdx.x);
    const std::int64_t i = task % tiles * kTileColumns + tile_column;
    if (tile_column < kTileColumns && i < inner) {
      double sum = 0.0;
      for (int w = 0; w < kTileRows; ++w) sum += sums[w][tile_column];
      partials[slice * inner + i] = sum;
    }
    __syncthreads();
  }
}

/// y[o, i] = factor * the sum of the partials over the parts.
template <class Real>
__global__ void finish_columns_kernel(std::int64_t outer, std::int64_t parts, std::int64_t inner,
                                      const double* partials, double factor, Sink y) {
  Writer writer(y);
  for_each_vector<1>(outer * inner, [&](std::int64_t at, int) {
    const double* column = partials + at / inner * parts * inner + at % inner;
    double sum = 0.0;
    for (std::int64_t part = 0; part < parts; ++part) sum += column[part * inner];
    const Real value[1] = {static_cast<Real>(sum * factor)};
    writer.store(at, 1, value);
  });
  writer.note();
}

/// y[row] = factor * the sum of a row's terms / divisor.
template <class Real, class Terms>
void sum_rows(Context& context, std::int64_t rows, std::int64_t cols, const Terms& terms,
              double factor, double divisor, const Output& y) {
  if (rows == 0) return;
  constexpr std::int64_t kLeastTerms = 4096, kMostParts = 2048;
  const Parts parts = Parts::of(cols, kLeastTerms, kMostParts, kWarp * kVector);
  const Workspace partials(context, static_cast<std::size_t>(rows * parts.count) * sizeof(double));
  constexpr std::int64_t kWarpsOfBlock = kFlatThreads / kWarp;
  launch(sum_rows_kernel<Real, Terms>,
         flat_config(context, divide_up(rows * parts.count, kWarpsOfBlock)), rows, cols, parts,
         terms, partials.as<double>());
  with_real(std::is_same_v<Real, double> || y.dtype == DType::f64, [&](auto result) {
    launch(finish_rows_kernel<decltype(result)>,
           flat_config(context, divide_up(rows, kWarpsOfBlock)), rows, parts.count,
           partials.as<double>(), factor, divisor, Sink(y));
  });
}

template <class Real>
void sum_columns(Context& context, const ReduceArgs& args) {
  if (args.outer * args.inner == 0) return;
  constexpr std::int64_t kLeastRows = 128, kMostParts = 64;
  const Parts parts = Parts::of(args.reduced, kLeastRows, kMostParts, kTileRows);
  const std::int64_t slices = args.outer * parts.count;
  const Workspace partials(context, static_cast<std::size_t>(slices * args.inner) * sizeof(double));
  launch(sum_columns_kernel<Real>,
         flat_config(context, slices * divide_up(args.inner, kTileColumns)), args.outer,
         args.reduced, args.inner, parts, Source(args.x), partials.as<double>());
  launch(finish_columns_kernel<Real>, flat_config_of<1>(context, args.outer * args.inner),
         args.outer, parts.count, args.inner, partials.as<double>(), args.factor, Sink(args.y));
}

/// Bytes an element: prediction, target and dprediction.
template <class Real>
__global__ void mse_backward_kernel(std::int64_t count, Source prediction, Source target,
                                    const Real* dloss, Sink dprediction) {
  const auto factor =
      static_cast<Real>(2.0 * static_cast<double>(*dloss) / static_cast<double>(count));
  Writer writer(dprediction);
  for_each_vector(count, [&](std::int64_t at, int valid) {
    Real a[kVector], b[kVector];
    prediction.load(at, valid, a);
    target.load(at, valid, b);
    for (int i = 0; i < kVector; ++i) a[i] = (a[i] - b[i]) * factor;
    writer.store(at, valid, a);
  });
  writer.note();
}

/// Leaves a NaN in `verdict` when a value is not finite. Bytes an element: x.
template <class Real>
__global__ void all_finite_kernel(std::int64_t count, Source x, Amax* verdict) {
  bool finite = true;
  for_each_vector(count, [&](std::int64_t at, int valid) {
    Real values[kVector];
    x.load(at, valid, values);
    // Of a finite value alone the difference from itself is zero.
    for (const Real value : values) finite = finite && value - value == Real{0};
  });
  constexpr std::uint32_t kNaN = 0x7FC00000;
  note_amax(verdict, finite ? 0 : kNaN);
}

/// Brings a kernel's result to the host, after all that was put on the stream.
template <class T>
T fetch(Context& context, const T* from) {
  T value{};
  check(cudaMemcpyAsync(&value, from, sizeof(T), cudaMemcpyDeviceToHost, context.stream()),
        "cudaMemcpyAsync");
  context.synchronize();
  return value;
}

}  // namespace

void sum_into(Context& context, std::int64_t count, const Input& x, double divisor,
              const Output& y) {
  with_real(x.dtype == DType::f64, [&](auto real) {
    sum_rows<decltype(real)>(context, 1, count, Values{Source(x)}, 1.0, divisor, y);
  });
}

void reduce(Context& context, const ReduceArgs& args) {
  const bool f64 = args.x.dtype == DType::f64;
  check_operands("reduce", f64, {args.x}, {args.y});
  clear_amax(args.y.amax, context.stream());
  with_real(f64, [&](auto real) {
    using Real = decltype(real);
    if (args.inner != 1) return sum_columns<Real>(context, args);
    sum_rows<Real>(context, args.outer, args.reduced, Values{Source(args.x)}, args.factor, 1.0,
                   args.y);
  });
}

void mse(Context& context, const MseArgs& args) {
  const bool f64 = args.prediction.dtype == DType::f64 || args.target.dtype == DType::f64;
  check_operands("mse", f64, {args.prediction, args.target}, {});
  const Output loss{.data = args.loss, .dtype = f64 ? DType::f64 : DType::f32};
  const auto divisor = static_cast<double>(std::max<std::int64_t>(args.count, 1));
  with_real(f64, [&](auto real) {
    sum_rows<decltype(real)>(context, 1, args.count,
                             SquaredErrors{Source(args.prediction), Source(args.target)}, 1.0,
                             divisor, loss);
  });
}

void mse_backward(Context& context, const MseBackwardArgs& args) {
  const bool f64 = args.prediction.dtype == DType::f64 || args.target.dtype == DType::f64;
  check_operands("mse_backward", f64, {args.prediction, args.target}, {args.dprediction});
  clear_amax(args.dprediction.amax, context.stream());
  with_real(f64, [&](auto real) {
    using Real = decltype(real);
    launch(mse_backward_kernel<Real>, flat_config_of(context, args.count), args.count,
           Source(args.prediction), Source(args.target), static_cast<const Real*>(args.dloss),
           Sink(args.dprediction));
  });
}

double sum_of_squares(Context& context, std::int64_t count, const Input& x) {
  const bool f64 = x.dtype == DType::f64;
  check_operands("sum_of_squares", f64, {x}, {});
  const Workspace sum(context, sizeof(double));
  with_real(f64, [&](auto real) {
    sum_rows<decltype(real)>(context, 1, count, Squares{Source(x)}, 1.0, 1.0,
                             {.data = sum.as<double>(), .dtype = DType::f64});
  });
  return fetch(context, sum.as<double>());
}

bool all_finite(Context& context, std::int64_t count, const Input& x) {
  const bool f64 = x.dtype == DType::f64;
  check_operands("all_finite", f64, {x}, {});
  const Workspace verdict(context, sizeof(Amax));
  clear_amax(verdict.as<Amax>(), context.stream());
  with_real(f64, [&](auto real) {
    launch(all_finite_kernel<decltype(real)>, flat_config_of(context, count), count, Source(x),
           verdict.as<Amax>());
  });
  return fetch(context, verdict.as<Amax>()).value == 0.0F;
}

}  // namespace tape8::cuda
