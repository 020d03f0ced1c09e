#include "backend/cuda/context.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/check.hpp"
#include "core/fail.hpp"

namespace tape8::cuda {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

/// Freed memory stays with the process.
void keep_pool_memory(int device) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
        "cudaMemPoolSetAttribute");
}

}  // namespace

int device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

Context::Context(int device)
    : device_(device),
      compute_capability_(10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                          attribute(cudaDevAttrComputeCapabilityMinor, device)),
      multiprocessors_(attribute(cudaDevAttrMultiProcessorCount, device)) {
  keep_pool_memory(device);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Context& Context::of(int device) {
  // Never destroyed: tensors with static lifetime may outlive main.
  static auto& contexts = *new std::vector<std::unique_ptr<Context>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (contexts.empty()) contexts.resize(static_cast<std::size_t>(device_count()));
  if (device < 0 || device >= static_cast<int>(contexts.size())) {
    fail<BackendError>("cuda: device must be one of {}: got cuda:{}", contexts.size(), device);
  }
  check(cudaSetDevice(device), "cudaSetDevice");
  std::unique_ptr<Context>& context = contexts[static_cast<std::size_t>(device)];
  if (context == nullptr) context.reset(new Context(device));
  return *context;
}

void* Context::allocate(std::size_t bytes) {
  void* data = nullptr;
  check(cudaMallocAsync(&data, std::max<std::size_t>(bytes, 1), stream_), "cudaMallocAsync");
  return data;
}

void Context::release(void* data) noexcept {
  // A failure would have been told by the calls before it.
  static_cast<void>(cudaFreeAsync(data, stream_));
}

void Context::synchronize() { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

Workspace::Workspace(Context& context, std::size_t bytes)
    : context_(context), data_(context.allocate(bytes)) {}

Workspace::~Workspace() { context_.release(data_); }

}  // namespace tape8::cuda
