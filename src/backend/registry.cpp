#include "backend/registry.hpp"

#include <atomic>
#include <map>
#include <memory>

#include <tape8/core/export.hpp>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cuda/cuda.hpp"
#include "core/fail.hpp"

namespace tape8 {
namespace {

std::atomic<cpu::Isa>& isa_in_use() {
  static std::atomic<cpu::Isa> isa{cpu::selected_isa()};
  return isa;
}

using CpuBackends = std::map<cpu::Isa, std::unique_ptr<Backend>>;

CpuBackends make_cpu_backends() {
  CpuBackends backends;
  for (const cpu::Isa isa : cpu::available_isas()) backends[isa] = cpu::make_backend(isa);
  return backends;
}

/// All are kept: an op may still run on one while another is chosen.
Backend& cpu_backend(cpu::Isa isa) {
  static const CpuBackends backends = make_cpu_backends();
  return *backends.at(isa);
}

}  // namespace

cpu::Isa cpu_isa_in_use() { return isa_in_use(); }

void use_cpu_isa(cpu::Isa isa) { isa_in_use() = isa; }

// Exported for the program's benchmark, which measures kernels alone.
TAPE8_API Backend& backend(const Device& device) {
  switch (device.type) {
    case DeviceType::cpu:
      return cpu_backend(isa_in_use());
    case DeviceType::cuda:
      return cuda::backend_of(device.index);
  }
  fail<OptionError>("backend: device must be a CPU or a GPU: got type {}",
                    static_cast<int>(device.type));
}

DeviceMemory& device_memory(const Device& device) { return cuda::memory_of(device.index); }

}  // namespace tape8
