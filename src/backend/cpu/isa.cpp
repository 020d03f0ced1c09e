#include "backend/cpu/isa.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/ranges.h>

#include "core/fail.hpp"
#include "core/logger.hpp"

namespace tape8::cpu {
namespace {

std::vector<Isa> detect() {
  std::vector<Isa> found;
#if defined(TAPE8_X86_64)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bf16") &&
      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni")) {
    found.push_back(Isa::avx512);
  } else {
    logger().debug("cpu: avx512 declined: the processor lacks a part of F/BW/DQ/VL/BF16/VBMI/VNNI");
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.push_back(Isa::avx2);
  } else {
    logger().debug("cpu: avx2 declined: the processor lacks AVX2 or FMA");
  }
#endif
  found.push_back(Isa::portable);
  return found;
}

Isa select() {
  const std::span<const Isa> isas = available_isas();
  const char* wanted = std::getenv("TAPE8_ISA");
  if (wanted == nullptr || *wanted == '\0') return isas.front();
  std::vector<std::string_view> names;
  for (const Isa isa : isas) {
    if (to_string(isa) == wanted) return isa;
    names.push_back(to_string(isa));
  }
  fail<OptionError>("TAPE8_ISA: must be one of {}: got {}", fmt::join(names, ", "), wanted);
}

}  // namespace

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "";
}

std::span<const Isa> available_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

Isa selected_isa() {
  static const Isa isa = select();
  return isa;
}

}  // namespace tape8::cpu
