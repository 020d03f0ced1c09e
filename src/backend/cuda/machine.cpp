#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "backend/cuda/check.hpp"
#include "backend/cuda/context.hpp"
#include "backend/cuda/cuda.hpp"
#include "backend/cuda/gemm_plan.hpp"
#include "core/fail.hpp"

namespace tape8::cuda {
namespace {

std::string describe(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return fmt::format("cuda:{} {}, compute capability {}.{}, {}", device, properties.name,
                     properties.major, properties.minor,
                     describe_formats(10 * properties.major + properties.minor));
}

}  // namespace

Machine machine() {
  Machine machine{.built = true, .why_not = {}, .gpus = {}};
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    machine.why_not = "built, no driver";
    return machine;
  }
  try {
    const int count = device_count();
    for (int device = 0; device < count; ++device) machine.gpus.push_back(describe(device));
    if (count == 0) machine.why_not = "built, no GPU";
  } catch (const BackendError& error) {
    machine.why_not = fmt::format("built, {}", error.what());
  }
  return machine;
}

}  // namespace tape8::cuda
