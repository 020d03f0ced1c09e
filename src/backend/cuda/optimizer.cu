// A step of an optimizer is one launch for many tensors, listed in the kernel's argument. The
// arithmetic is the CPU backend's, operation for operation, so that weights are equal to the bit.

#include <array>

#include "backend/cuda/flat.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/optimizer_factors.hpp"

namespace tape8::cuda {
namespace {

inline constexpr int kWeights = 4;                         // that a thread takes at a time
inline constexpr std::int64_t kChunk = 16 * kFlatThreads;  // weights of a block

struct AdamWTarget {
  std::int64_t count = 0;
  std::int64_t first_chunk = 0;  // of those of the whole launch
  float *weight = nullptr, *exp_avg = nullptr, *exp_avg_sq = nullptr;
  Source grad;
  Sink copy;

  AdamWTarget() = default;
  AdamWTarget(const AdamWTensor& tensor, std::int64_t chunk)
      : count(tensor.count),
        first_chunk(chunk),
        weight(tensor.weight),
        exp_avg(tensor.exp_avg),
        exp_avg_sq(tensor.exp_avg_sq),
        grad(tensor.grad),
        copy(tensor.copy) {}
};

struct SgdTarget {
  std::int64_t count = 0;
  std::int64_t first_chunk = 0;
  float *weight = nullptr, *velocity = nullptr;
  Source grad;
  Sink copy;

  SgdTarget() = default;
  SgdTarget(const SgdTensor& tensor, std::int64_t chunk)
      : count(tensor.count),
        first_chunk(chunk),
        weight(tensor.weight),
        velocity(tensor.velocity),
        grad(tensor.grad),
        copy(tensor.copy) {}
};

/// What fits in a kernel's 4 KB of arguments.
template <class Target>
struct Targets {
  static constexpr int kMost = (4096 - 128) / static_cast<int>(sizeof(Target));
  int count = 0;
  Target targets[kMost];

  /// Whose chunk the calling block's is.
  __device__ const Target& own() const {
    int at = 0;
    while (at + 1 < count && targets[at + 1].first_chunk <= blockIdx.x) ++at;
    return targets[at];
  }
};

/// Calls body(first weight, weights of the vector) for the calling thread's part of its chunk.
template <class Target, class Body>
__device__ void for_each_weight(const Target& target, const Body& body) {
  const std::int64_t begin = (blockIdx.x - target.first_chunk) * kChunk;
  const std::int64_t end = begin + kChunk < target.count ? begin + kChunk : target.count;
  for (std::int64_t at = begin + std::int64_t{threadIdx.x} * kWeights; at < end;
       at += std::int64_t{kFlatThreads} * kWeights) {
    body(at, end - at < kWeights ? static_cast<int>(end - at) : kWeights);
  }
}

/// Bytes a weight: 24 of f32 state, the gradient and the copy.
__global__ void adamw_kernel(Targets<AdamWTarget> targets, AdamWFactors f) {
  const AdamWTarget& target = targets.own();
  Writer copy(target.copy);
  for_each_weight(target, [&](std::int64_t at, int valid) {
    float grad[kWeights], weight[kWeights], exp_avg[kWeights], exp_avg_sq[kWeights];
    target.grad.load(at, valid, grad);
    load_vector(target.weight + at, valid, weight);
    load_vector(target.exp_avg + at, valid, exp_avg);
    load_vector(target.exp_avg_sq + at, valid, exp_avg_sq);
    for (int i = 0; i < kWeights; ++i) {
      const float m = fmaf(f.beta1, exp_avg[i], f.one_minus_beta1 * grad[i]);
      const float v = fmaf(f.beta2, exp_avg_sq[i], f.one_minus_beta2 * (grad[i] * grad[i]));
      const float denominator = sqrtf(v * f.inverse_correction2) + f.epsilon;
      const float adaptive = m * f.inverse_correction1 / denominator;
      const float update = fmaf(f.weight_decay, weight[i], adaptive);
      weight[i] = fmaf(-f.learning_rate, update, weight[i]);
      exp_avg[i] = m;
      exp_avg_sq[i] = v;
    }
    store_vector(target.weight + at, valid, weight);
    store_vector(target.exp_avg + at, valid, exp_avg);
    store_vector(target.exp_avg_sq + at, valid, exp_avg_sq);
    copy.store(at, valid, weight);
  });
  copy.note();
}

/// Bytes a weight: 16 of f32 state (8 without momentum), the gradient and the copy.
__global__ void sgd_kernel(Targets<SgdTarget> targets, SgdFactors f) {
  const SgdTarget& target = targets.own();
  Writer copy(target.copy);
  for_each_weight(target, [&](std::int64_t at, int valid) {
    float grad[kWeights], weight[kWeights], velocity[kWeights];
    target.grad.load(at, valid, grad);
    load_vector(target.weight + at, valid, weight);
    if (target.velocity != nullptr) load_vector(target.velocity + at, valid, velocity);
    for (int i = 0; i < kWeights; ++i) {
      float step = fmaf(f.weight_decay, weight[i], grad[i]);
      if (target.velocity != nullptr) {
        velocity[i] = fmaf(f.momentum, velocity[i], step);
        step = f.nesterov ? fmaf(f.momentum, velocity[i], step) : velocity[i];
      }
      weight[i] = fmaf(-f.learning_rate, step, weight[i]);
    }
    store_vector(target.weight + at, valid, weight);
    if (target.velocity != nullptr) store_vector(target.velocity + at, valid, velocity);
    copy.store(at, valid, weight);
  });
  copy.note();
}

/// Launches the kernel for as many tensors at a time as its argument holds.
template <class Target, class Tensor, class Factors>
void update(Context& context, const char* op, std::span<const Tensor> tensors,
            void (*kernel)(Targets<Target>, Factors), const Factors& factors) {
  for (const Tensor& tensor : tensors) check_operands(op, false, {tensor.grad}, {tensor.copy});
  for (const Tensor& tensor : tensors) clear_amax(tensor.copy.amax, context.stream());
  Targets<Target> targets;
  std::int64_t chunks = 0;
  const auto flush = [&] {
    launch(kernel,
           {.grid = dim3(static_cast<unsigned>(chunks)),
            .block = dim3(kFlatThreads),
            .stream = context.stream()},
           targets, factors);
    targets.count = 0;
    chunks = 0;
  };
  for (const Tensor& tensor : tensors) {
    if (tensor.count == 0) continue;
    targets.targets[targets.count++] = Target(tensor, chunks);
    chunks += divide_up(tensor.count, kChunk);
    if (targets.count == Targets<Target>::kMost) flush();
  }
  flush();
}

}  // namespace

void adamw(Context& context, const AdamWArgs& args) {
  update(context, "adamw", args.tensors, adamw_kernel, factors_of(args));
}

void sgd(Context& context, const SgdArgs& args) {
  update(context, "sgd", args.tensors, sgd_kernel, factors_of(args));
}

}  // namespace tape8::cuda
