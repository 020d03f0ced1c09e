#include "backend/cuda/flat.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/math.hpp"
#include "backend/cuda/sums.hpp"

namespace tape8::cuda {
namespace {

inline constexpr int kLogits = 4;  // that a thread takes at a time

/// Enough whole warps for a row, at most kFlatThreads threads; a block takes a row at a time.
LaunchConfig row_config(const Context& context, std::int64_t rows, std::int64_t classes) {
  LaunchConfig config = flat_config(context, rows);
  const std::int64_t warps = divide_up(classes, std::int64_t{kLogits} * kWarp);
  const std::int64_t most_warps = kFlatThreads / kWarp;
  config.block =
      dim3(static_cast<unsigned>(kWarp * std::clamp<std::int64_t>(warps, 1, most_warps)));
  // Small blocks: as many threads of a multiprocessor as with large ones.
  const std::int64_t blocks = config.grid.x * (kFlatThreads / config.block.x);
  config.grid = dim3(static_cast<unsigned>(std::min(rows, blocks)));
  return config;
}

/// Calls body(first class, logits of the vector) for the calling thread's part of a row.
template <class Body>
__device__ void for_each_part(std::int64_t classes, const Body& body) {
  for (std::int64_t c = std::int64_t{threadIdx.x} * kLogits; c < classes;
       c += std::int64_t{blockDim.x} * kLogits) {
    body(c, classes - c < kLogits ? static_cast<int>(classes - c) : kLogits);
  }
}

/// As block_sum(). A NaN does not count: the sum that follows has it.
template <class Real>
__device__ Real block_max(Real value, Real* shared) {
  const auto warp_max = [](Real each) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      const Real other = __shfl_xor_sync(0xFFFFFFFFU, each, offset);
      each = other > each ? other : each;
    }
    return each;
  };
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warps = blockDim.x / kWarp;
  value = warp_max(value);
  if (warps == 1) return value;
  if (lane == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = warp_max(shared[lane < warps ? lane : 0]);
  __syncthreads();
  return value;
}

/// Bytes a logit: it is read once from memory, then from caches.
template <class Real>
__global__ void softmax_cross_entropy_kernel(std::int64_t rows, std::int64_t classes,
                                             double smoothing, Source logits,
                                             const std::int32_t* labels, Real* logsumexp,
                                             double* losses) {
  TAPE8_SHARED(Real, shared, [kWarp]);
  TAPE8_SHARED(double, shared_sums, [kWarp]);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t first = row * classes;
    Real largest = -static_cast<Real>(INFINITY);
    for_each_part(classes, [&](std::int64_t c, int valid) {
      Real x[kLogits];
      logits.load(first + c, valid, x);
      for (int i = 0; i < kLogits; ++i) {
        if (i < valid && x[i] > largest) largest = x[i];
      }
    });
    largest = block_max(largest, shared);

    Real sum = 0;
    double shifted_sum = 0.0;  // of logits less the largest
    for_each_part(classes, [&](std::int64_t c, int valid) {
      Real x[kLogits];
      logits.load(first + c, valid, x);
      for (int i = 0; i < kLogits; ++i) {
        if (i >= valid) continue;
        sum += exponential(x[i] - largest);
        shifted_sum += static_cast<double>(x[i]) - static_cast<double>(largest);
      }
    });
    sum = block_sum(sum, shared);
    if (smoothing > 0.0) shifted_sum = block_sum(shifted_sum, shared_sums);

    if (threadIdx.x != 0) continue;
    // In f64: large logits would otherwise leave little of the difference.
    const double log_sum = log(static_cast<double>(sum));
    logsumexp[row] = static_cast<Real>(static_cast<double>(largest) + log_sum);
    const std::int32_t label = labels[row];
    if (label == kIgnoredLabel) {
      losses[row] = 0.0;
      continue;
    }
    const double shifted =
        static_cast<double>(logits.load_one<Real>(first + label)) - static_cast<double>(largest);
    double loss = log_sum - (1.0 - smoothing) * shifted;
    if (smoothing > 0.0) loss -= smoothing * shifted_sum / static_cast<double>(classes);
    losses[row] = loss;
  }
}

/// Bytes a logit: it, read once from memory, then from caches, and its gradient.
template <class Real>
__global__ void softmax_cross_entropy_backward_kernel(std::int64_t rows, std::int64_t classes,
                                                      Real smoothing, Source logits,
                                                      const std::int32_t* labels,
                                                      std::int64_t counted, const Real* logsumexp,
                                                      const Real* dloss, Sink dlogits) {
  TAPE8_SHARED(Real, shared, [kWarp]);
  const Real scale = *dloss / static_cast<Real>(counted > 0 ? counted : 1);
  const Real spread = smoothing / static_cast<Real>(classes > 0 ? classes : 1);
  Writer writer(dlogits);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t first = row * classes;
    const std::int32_t label = labels[row];
    const Real shift = logsumexp[row];
    const auto load_exponentials = [&](std::int64_t c, int valid, Real(&x)[kLogits]) {
      logits.load(first + c, valid, x);
      for (int i = 0; i < kLogits; ++i) x[i] = i < valid ? exponential(x[i] - shift) : Real{0};
    };
    if (label == kIgnoredLabel) {
      for_each_part(classes, [&](std::int64_t c, int valid) {
        const Real zeros[kLogits] = {};
        writer.store(first + c, valid, zeros);
      });
      continue;
    }
    // 1 but for the rounding of logsumexp, which large logits magnify: dividing by it takes that
    // out.
    Real sum = 0;
    for_each_part(classes, [&](std::int64_t c, int valid) {
      Real x[kLogits];
      load_exponentials(c, valid, x);
      for (const Real each : x) sum += each;
    });
    sum = block_sum(sum, shared);
    for_each_part(classes, [&](std::int64_t c, int valid) {
      Real x[kLogits];
      load_exponentials(c, valid, x);
      for (int i = 0; i < kLogits; ++i) {
        Real probability = x[i] / sum;
        if (c + i == label) probability -= Real{1} - smoothing;
        x[i] = (probability - spread) * scale;
      }
      writer.store(first + c, valid, x);
    });
  }
  writer.note();
}

}  // namespace

void softmax_cross_entropy(Context& context, const SoftmaxCrossEntropyArgs& args) {
  const bool f64 = args.logits.dtype == DType::f64;
  check_operands("softmax_cross_entropy", f64, {args.logits}, {});
  const Workspace losses(context, static_cast<std::size_t>(args.rows) * sizeof(double));
  with_real(f64, [&](auto real) {
    using Real = decltype(real);
    launch(softmax_cross_entropy_kernel<Real>, row_config(context, args.rows, args.classes),
           args.rows, args.classes, static_cast<double>(args.label_smoothing), Source(args.logits),
           args.labels, static_cast<Real*>(args.logsumexp), losses.as<double>());
  });
  sum_into(context, args.rows, {.data = losses.as<double>(), .dtype = DType::f64},
           static_cast<double>(std::max<std::int64_t>(args.counted, 1)),
           {.data = args.loss, .dtype = f64 ? DType::f64 : DType::f32});
}

void softmax_cross_entropy_backward(Context& context, const SoftmaxCrossEntropyBackwardArgs& args) {
  const bool f64 = args.logits.dtype == DType::f64;
  check_operands("softmax_cross_entropy_backward", f64, {args.logits}, {args.dlogits});
  clear_amax(args.dlogits.amax, context.stream());
  with_real(f64, [&](auto real) {
    using Real = decltype(real);
    launch(softmax_cross_entropy_backward_kernel<Real>,
           row_config(context, args.rows, args.classes), args.rows, args.classes,
           static_cast<Real>(args.label_smoothing), Source(args.logits), args.labels, args.counted,
           static_cast<const Real*>(args.logsumexp), static_cast<const Real*>(args.dloss),
           Sink(args.dlogits));
  });
}

}  // namespace tape8::cuda
