#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include <tape8/backend/info.hpp>

#include "backend/cuda/cuda.hpp"
#include "backend/registry.hpp"
#include "core/fail.hpp"

namespace tape8 {
namespace {

std::string description(cpu::Isa isa) {
  switch (isa) {
    case cpu::Isa::portable:
      return "what the compiler targets";
    case cpu::Isa::avx2:
      return "x86-64 AVX2 and FMA";
    case cpu::Isa::avx512:
      return "x86-64 AVX-512 with BF16, VBMI and VNNI";
  }
  return "";
}

BackendInfo info_of(cpu::Isa isa) {
  const std::span<const cpu::Isa> available = cpu::available_isas();
  BackendInfo info{std::string(cpu::to_string(isa)), description(isa), false, {}};
  info.available = std::find(available.begin(), available.end(), isa) != available.end();
  if (!info.available) {
    info.why_not = fmt::format("the machine lacks {}", cpu::missing_features(isa));
  } else if (isa > cpu_isa_in_use()) {
    info.why_not = cpu_isa_in_use() == cpu::selected_isa()
                       ? fmt::format("TAPE8_ISA={} is in the environment", cpu_isa())
                       : fmt::format("set_cpu_isa chose {}", cpu_isa());
  }
  return info;
}

}  // namespace

std::vector<BackendInfo> backends() {
  const cuda::Machine cuda = cuda::machine();
  const std::string gpus =
      cuda.gpus.empty() ? "NVIDIA GPUs" : fmt::format("{}", fmt::join(cuda.gpus, "; "));
  return {{"cpu", fmt::format("OpenMP, {} kernels", cpu_isa()), true, {}},
          {"cuda", "experimental; " + gpus, cuda.why_not.empty(), cuda.why_not}};
}

std::vector<BackendInfo> cpu_isas() {
  return {info_of(cpu::Isa::avx512), info_of(cpu::Isa::avx2), info_of(cpu::Isa::portable)};
}

std::string cpu_isa() { return std::string(cpu::to_string(cpu_isa_in_use())); }

void set_cpu_isa(std::string_view name) {
  std::vector<std::string_view> names;
  for (const cpu::Isa isa : cpu::available_isas()) {
    if (cpu::to_string(isa) == name) return use_cpu_isa(isa);
    names.push_back(cpu::to_string(isa));
  }
  fail<OptionError>("set_cpu_isa: must be one of {}, which this machine has: got {}",
                    fmt::join(names, ", "), name);
}

}  // namespace tape8
