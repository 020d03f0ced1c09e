// All updates of a pass are one launch, listed in the kernel's argument: nothing waits for the
// host. Bytes: of each update its amaxes, and its history read and written once.

#include <cfloat>

#include "backend/cuda/flat.hpp"
#include "backend/cuda/kernels.hpp"

namespace tape8::cuda {
namespace {

inline constexpr int kThreads = 128;
inline constexpr int kMostUpdates = 24;  // these and the amaxes fit in 4 KB of arguments
inline constexpr int kMostAmaxes = 240;

struct Update {
  float format_max = 0;
  int margin = 0;
  bool power_of_2_scale = false;
  bool most_recent = false;
  int first_amax = 0, amaxes = 0;
  float* history = nullptr;
  std::int64_t history_length = 0;
  std::int64_t* non_finite_passes = nullptr;
  const Scale* previous = nullptr;
  Scale* scale = nullptr;
  ScaleInv* scale_inv = nullptr;
};

struct Updates {
  int count = 0;
  int amaxes = 0;
  Update updates[kMostUpdates];
  const Amax* amax[kMostAmaxes];
};
static_assert(sizeof(Updates) <= 4000);

struct AmaxList {
  int count = 0;
  const Amax* amax[kMostAmaxes];
};

/// The largest of the threads' values, the same in each, as bits: NaN is above all.
__device__ std::uint32_t block_max(std::uint32_t bits, std::uint32_t* shared) {
  __syncthreads();
  if (threadIdx.x == 0) *shared = 0;
  __syncthreads();
  atomicMax(reinterpret_cast<unsigned*>(shared), bits);
  __syncthreads();
  return *shared;
}

/// Of the amaxes of a list.
__device__ std::uint32_t largest(const Amax* const* amaxes, int count, std::uint32_t* shared) {
  std::uint32_t bits = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const std::uint32_t other = amax_bits(amaxes[i]->value);
    bits = other > bits ? other : bits;
  }
  return block_max(bits, shared);
}

/// *total becomes the largest of the list and of what it was.
__global__ void fold_amaxes_kernel(AmaxList list, Amax* total) {
  TAPE8_SHARED(std::uint32_t, shared, [1]);
  const std::uint32_t bits = largest(list.amax, list.count, shared);
  if (threadIdx.x != 0) return;
  const std::uint32_t old = amax_bits(total->value);
  total->value = __uint_as_float(bits > old ? bits : old);
}

/// The history with `amax` as its newest entry moves on by one; returns its largest, as bits.
__device__ std::uint32_t push(float amax, float* history, std::int64_t length,
                              std::uint32_t* shared) {
  std::uint32_t bits = amax_bits(amax);
  for (std::int64_t first = 0; first < length; first += kThreads) {
    // Each tile is read, with the value after it, before it is written.
    const std::int64_t i = first + threadIdx.x;
    const float next = i + 1 < length ? history[i + 1] : amax;
    __syncthreads();
    if (i < length) history[i] = i == 0 ? 0.0F : next;
    const std::uint32_t other = amax_bits(next);
    bits = other > bits ? other : bits;
    __syncthreads();
  }
  return block_max(bits, shared);
}

__device__ float scale_of(float amax, const Update& update) {
  if (!(amax > 0.0F && amax <= FLT_MAX)) {
    return update.previous == nullptr ? 1.0F : update.previous->value;
  }
  const float scale = ldexpf(update.format_max / amax, -update.margin);
  const float clamped = scale < kSmallestScale ? kSmallestScale : scale > FLT_MAX ? FLT_MAX : scale;
  constexpr std::uint32_t kMantissa = 0x007FFFFF;
  return update.power_of_2_scale ? __uint_as_float(__float_as_uint(clamped) & ~kMantissa) : clamped;
}

/// A block an update.
__global__ void update_scales_kernel(Updates table) {
  TAPE8_SHARED(std::uint32_t, shared, [1]);
  const Update& update = table.updates[blockIdx.x];
  float amax = __uint_as_float(largest(table.amax + update.first_amax, update.amaxes, shared));
  if (update.history != nullptr && amax <= FLT_MAX) {
    const std::uint32_t basis = push(amax, update.history, update.history_length, shared);
    if (!update.most_recent) amax = __uint_as_float(basis);
  } else if (update.history != nullptr && threadIdx.x == 0) {
    ++*update.non_finite_passes;
  }
  if (threadIdx.x != 0) return;
  const float scale = scale_of(amax, update);
  update.scale->value = scale;
  update.scale_inv->value = 1.0F / scale;
}

/// Collects updates, and launches the kernel when its argument is full and at the end.
class Launcher {
 public:
  explicit Launcher(Context& context) : context_(context) {}

  void add(const ScaleUpdate& update) {
    if (update.amaxes.size() <= kMostAmaxes) return add(update, update.amaxes);
    // More than fit: their largest first.
    const Workspace total(context_, sizeof(Amax));
    clear_amax(total.as<Amax>(), context_.stream());
    for (std::size_t first = 0; first < update.amaxes.size(); first += kMostAmaxes) {
      const std::size_t count = std::min<std::size_t>(update.amaxes.size() - first, kMostAmaxes);
      AmaxList list;
      list.count = static_cast<int>(count);
      std::copy_n(update.amaxes.begin() + static_cast<std::ptrdiff_t>(first), count, list.amax);
      launch(fold_amaxes_kernel, config(1), list, total.as<Amax>());
    }
    const Amax* const only = total.as<Amax>();
    add(update, {&only, 1});
    flush();  // while the workspace is there
  }

  void flush() {
    launch(update_scales_kernel, config(table_.count), table_);
    table_.count = 0;
    table_.amaxes = 0;
  }

 private:
  LaunchConfig config(int blocks) const {
    return {.grid = dim3(static_cast<unsigned>(blocks)),
            .block = dim3(kThreads),
            .stream = context_.stream()};
  }

  void add(const ScaleUpdate& update, std::span<const Amax* const> amaxes) {
    const auto count = static_cast<int>(amaxes.size());
    if (table_.count == kMostUpdates || table_.amaxes + count > kMostAmaxes) flush();
    std::copy(amaxes.begin(), amaxes.end(), table_.amax + table_.amaxes);
    table_.updates[table_.count++] = {.format_max = low_precision_max(update.format),
                                      .margin = update.margin,
                                      .power_of_2_scale = update.power_of_2_scale,
                                      .most_recent = update.most_recent,
                                      .first_amax = table_.amaxes,
                                      .amaxes = count,
                                      .history = update.amax_history,
                                      .history_length = update.amax_history_length,
                                      .non_finite_passes = update.non_finite_passes,
                                      .previous = update.previous,
                                      .scale = update.scale,
                                      .scale_inv = update.scale_inv};
    table_.amaxes += count;
  }

  Context& context_;
  Updates table_;
};

}  // namespace

void update_scales(Context& context, const UpdateScalesArgs& args) {
  Launcher launcher(context);
  for (const ScaleUpdate& update : args.updates) launcher.add(update);
  launcher.flush();
}

}  // namespace tape8::cuda
