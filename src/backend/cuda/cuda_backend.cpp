#include <array>
#include <memory>
#include <mutex>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "backend/cuda/check.hpp"
#include "backend/cuda/context.hpp"
#include "backend/cuda/convert.hpp"
#include "backend/cuda/cuda.hpp"
#include "backend/cuda/kernels.hpp"

namespace tape8::cuda {
namespace {

/// Kernels of one GPU, each made current for the calling thread first.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int gpu) : gpu_(gpu) {}

  std::string_view name() const override { return "cuda"; }

  void cast(const CastArgs& args) override { cuda::cast(context(), args); }
  void activation(const ActivationArgs& args) override { cuda::activation(context(), args); }
  void activation_backward(const ActivationBackwardArgs& args) override {
    cuda::activation_backward(context(), args);
  }
  void norm(const NormArgs& args) override { cuda::norm(context(), args); }
  void norm_backward(const NormBackwardArgs& args) override {
    cuda::norm_backward(context(), args);
  }
  void gemm(const GemmArgs& args) override { cuda::gemm(context(), args); }
  void softmax_cross_entropy(const SoftmaxCrossEntropyArgs& args) override {
    cuda::softmax_cross_entropy(context(), args);
  }
  void softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackwardArgs& args) override {
    cuda::softmax_cross_entropy_backward(context(), args);
  }
  void binary(const BinaryArgs& args) override { cuda::binary(context(), args); }
  void scale(const ScaleArgs& args) override { cuda::scale(context(), args); }
  void reduce(const ReduceArgs& args) override { cuda::reduce(context(), args); }
  void broadcast(const BroadcastArgs& args) override { cuda::broadcast(context(), args); }
  void dropout(const DropoutArgs& args) override { cuda::dropout(context(), args); }
  void mse(const MseArgs& args) override { cuda::mse(context(), args); }
  void mse_backward(const MseBackwardArgs& args) override { cuda::mse_backward(context(), args); }
  void adamw(const AdamWArgs& args) override { cuda::adamw(context(), args); }
  void sgd(const SgdArgs& args) override { cuda::sgd(context(), args); }
  void update_scales(const UpdateScalesArgs& args) override {
    cuda::update_scales(context(), args);
  }
  double sum_of_squares(std::int64_t count, const Input& x) override {
    return cuda::sum_of_squares(context(), count, x);
  }
  bool all_finite(std::int64_t count, const Input& x) override {
    return cuda::all_finite(context(), count, x);
  }

 private:
  Context& context() const { return Context::of(gpu_); }

  int gpu_;
};

class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(int gpu) : gpu_(gpu) {}

  void* allocate(std::size_t bytes) override { return context().allocate(bytes); }
  void release(void* data) noexcept override { context().release(data); }

  void upload(void* to, const void* from_host, std::size_t bytes) override {
    // From pageable memory the call returns once the values are staged.
    copy(to, from_host, bytes, cudaMemcpyHostToDevice);
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    copy(to_host, from, bytes, cudaMemcpyDeviceToHost);
    context().synchronize();
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  void set_bytes(void* to, std::byte value, std::size_t bytes) override {
    check(cudaMemsetAsync(to, std::to_integer<int>(value), bytes, context().stream()),
          "cudaMemsetAsync");
  }
  void convert(const StridedView& to, const StridedView& from) override {
    convert_strided(context(), to, from);
  }

 private:
  Context& context() const { return Context::of(gpu_); }

  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, bytes, kind, context().stream()), "cudaMemcpyAsync");
  }

  int gpu_;
};

struct Gpu {
  explicit Gpu(int index) : kernels(index), memory(index) {}

  CudaBackend kernels;
  CudaMemory memory;
};

constexpr int kMostGpus = 64;

/// Kept to the end of the process: tensors with static lifetime may outlive main.
Gpu& gpu_of(int index) {
  static std::array<std::unique_ptr<Gpu>, kMostGpus>& gpus =
      *new std::array<std::unique_ptr<Gpu>, kMostGpus>;
  static std::mutex mutex;
  Context::of(index);  // refuses what is not there
  const std::lock_guard lock(mutex);
  std::unique_ptr<Gpu>& gpu = gpus.at(static_cast<std::size_t>(index));
  if (gpu == nullptr) gpu = std::make_unique<Gpu>(index);
  return *gpu;
}

}  // namespace

Backend& backend_of(int gpu) { return gpu_of(gpu).kernels; }

DeviceMemory& memory_of(int gpu) { return gpu_of(gpu).memory; }

}  // namespace tape8::cuda
