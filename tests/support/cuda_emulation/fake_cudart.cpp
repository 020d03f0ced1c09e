// The calls of the CUDA runtime that tape8 makes, on the CPU's memory.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>

#include "cuda_emulation/block.hpp"
#include "cuda_emulation/device.hpp"

namespace cuda_emulation {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kPoison = 0xFF;
constexpr std::size_t kSharedBytes = std::size_t{48} << 10U;
constexpr unsigned kMostThreadsZ = 64;
constexpr unsigned kMostBlocksX = 0x7FFFFFFF;
constexpr unsigned kMostBlocksY = 65535;

struct Runtime {
  std::recursive_mutex mutex;
  Machine machine;
  Counters counters;
  std::map<const std::byte*, std::size_t> memory;  // of GPUs: where it begins, bytes
  std::set<cudaStream_t> streams;
  std::unordered_map<const void*, Invoke> kernels;
  std::unordered_map<const void*, std::size_t> shared_limits;
  Schedule schedule = Schedule::forward;
  std::mt19937 random{1};
  int device = 0;
};

Schedule schedule_from_environment() {
  const char* name = std::getenv("TAPE8_CUDA_SCHEDULE");
  const std::string wanted = name == nullptr ? "" : name;
  if (wanted == "reverse") return Schedule::reverse;
  if (wanted == "random") return Schedule::random;
  if (wanted == "greedy_warp") return Schedule::greedy_warp;
  return Schedule::forward;
}

/// Never destroyed: tensors with static lifetime may outlive main.
Runtime& runtime() {
  static auto* const instance = [] {
    auto* made = new Runtime;
    made->schedule = schedule_from_environment();
    return made;
  }();
  return *instance;
}

void check_stream(cudaStream_t stream) {
  if (stream != nullptr && !runtime().streams.contains(stream)) {
    throw Error("a call names a stream that does not exist");
  }
}

void check_memory(const void* data, std::size_t bytes, bool on_device, const char* call) {
  if (bytes > 0 && is_device_memory(data, bytes) != on_device) {
    throw Error(std::string(call) + ": memory must be the " + (on_device ? "device's" : "host's") +
                ", all of it");
  }
}

std::size_t shared_limit(const void* kernel) {
  const auto found = runtime().shared_limits.find(kernel);
  return found == runtime().shared_limits.end() ? kSharedBytes : found->second;
}

void check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  const dim3 block = config.blockDim;
  const dim3 grid = config.gridDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > kMostThreadsZ) {
    throw Error("a launch: a block must have 1 to 1024 threads");
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kMostBlocksX || grid.y > kMostBlocksY ||
      grid.z > kMostBlocksY) {
    throw Error("a launch: the grid must have blocks, at most 65535 along y and z");
  }
  if (config.dynamicSmemBytes > shared_limit(kernel)) {
    throw Error("a launch: more shared memory than cudaFuncSetAttribute has allowed");
  }
  if (!runtime().kernels.contains(kernel)) throw Error("a launch: of a kernel that nobody knows");
}

void run_kernel(const cudaLaunchConfig_t& config, const void* kernel, void** arguments) {
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  const Invoke invoke = runtime().kernels.at(kernel);
  const std::function<void()> body = [&] { invoke(kernel, arguments); };
  const std::function<void(unsigned)> enter = [](unsigned thread) {
    threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y,
                 thread / (blockDim.x * blockDim.y)};
  };
  Block block(blockDim.x * blockDim.y * blockDim.z, config.dynamicSmemBytes);
  std::vector<std::uint64_t> order(std::uint64_t{gridDim.x} * gridDim.y * gridDim.z);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  if (runtime().schedule == Schedule::reverse) std::reverse(order.begin(), order.end());
  if (runtime().schedule == Schedule::random) {
    std::shuffle(order.begin(), order.end(), runtime().random);
  }
  for (const std::uint64_t at : order) {
    blockIdx = {static_cast<unsigned>(at % gridDim.x),
                static_cast<unsigned>(at / gridDim.x % gridDim.y),
                static_cast<unsigned>(at / gridDim.x / gridDim.y)};
    block.run(body, enter, runtime().schedule, runtime().random);
  }
  if (block.shared_bytes() > kSharedBytes || block.shared_bytes() + config.dynamicSmemBytes >
                                                 std::max(shared_limit(kernel), kSharedBytes)) {
    throw Error("a launch: more shared memory than a block may have");
  }
}

}  // namespace

void set_schedule(Schedule schedule, std::uint32_t seed) {
  const std::lock_guard lock(runtime().mutex);
  runtime().schedule = schedule;
  runtime().random.seed(seed);
}

Schedule schedule() { return runtime().schedule; }

Machine& machine() { return runtime().machine; }

const Counters& counters() { return runtime().counters; }

bool is_device_memory(const void* data, std::size_t bytes) {
  const std::lock_guard lock(runtime().mutex);
  const auto* begin = static_cast<const std::byte*>(data);
  auto found = runtime().memory.upper_bound(begin);
  if (found == runtime().memory.begin()) return false;
  --found;
  return begin + bytes <= found->first + found->second;
}

void remember_kernel(const void* kernel, Invoke invoke) {
  const std::lock_guard lock(runtime().mutex);
  runtime().kernels[kernel] = invoke;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(machine().compute_capabilities.size());
  return machine().driver;
}

cudaError_t cudaSetDevice(int device) {
  if (machine().driver != cudaSuccess) return machine().driver;
  if (device < 0 || device >= static_cast<int>(machine().compute_capabilities.size())) {
    return cudaErrorInvalidDevice;
  }
  runtime().device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = runtime().device;
  return machine().driver;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  constexpr int kMultiprocessors = 2;  // few blocks, so that tests are quick
  const int capability = machine().compute_capabilities.at(static_cast<std::size_t>(device));
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = capability / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = capability % 10;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(capability >= 90 ? 227U << 10U : 99U << 10U);
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const int capability = machine().compute_capabilities.at(static_cast<std::size_t>(device));
  *properties = {};
  std::strcpy(properties->name, "emulated GPU");
  properties->major = capability / 10;
  properties->minor = capability % 10;
  return machine().driver;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver == cudaSuccess ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(runtime().mutex);
  *stream = reinterpret_cast<cudaStream_t>(runtime().streams.size() + 1);
  runtime().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  check_stream(stream);
  ++runtime().counters.synchronizations;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  check_stream(stream);
  Counters& counters = runtime().counters;
  if (static_cast<std::size_t>(counters.allocated_bytes) + bytes > machine().memory) {
    return cudaErrorMemoryAllocation;
  }
  // Not a byte more, so that an overrun is seen.
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, std::max<std::size_t>(bytes, 1)) != 0) {
    return cudaErrorMemoryAllocation;
  }
  std::memset(memory, kPoison, bytes);
  runtime().memory[static_cast<std::byte*>(memory)] = bytes;
  ++counters.allocations;
  counters.allocated_bytes += static_cast<std::int64_t>(bytes);
  *data = memory;
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  check_stream(stream);
  const auto found = runtime().memory.find(static_cast<std::byte*>(data));
  if (found == runtime().memory.end()) return cudaErrorInvalidValue;
  runtime().counters.allocated_bytes -= static_cast<std::int64_t>(found->second);
  runtime().memory.erase(found);
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  check_stream(stream);
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  check_memory(to, bytes, to_device, "cudaMemcpyAsync");
  check_memory(from, bytes, from_device, "cudaMemcpyAsync");
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  check_stream(stream);
  check_memory(to, bytes, true, "cudaMemsetAsync");
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(runtime().mutex);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorInvalidValue;
  runtime().shared_limits[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                void** arguments) {
  const std::lock_guard lock(runtime().mutex);
  check_stream(config->stream);
  check_launch(*config, kernel);
  ++runtime().counters.launches;
  run_kernel(*config, kernel, arguments);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    default:
      return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    default:
      return "unknown error";
  }
}

}  // extern "C"
