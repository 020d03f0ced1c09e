#include "backend/cpu/isa.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/ranges.h>

#include "core/fail.hpp"
#include "core/logger.hpp"

namespace tape8::cpu {
namespace {

struct Feature {
  std::string_view name;
  bool present;
};

/// What a set's kernels are compiled for, and whether the processor has it.
std::vector<Feature> features(Isa isa) {
#if defined(TAPE8_X86_64)
  __builtin_cpu_init();
  switch (isa) {
    case Isa::portable:
      return {};
    case Isa::avx2:
      return {{"AVX2", __builtin_cpu_supports("avx2") != 0},
              {"FMA", __builtin_cpu_supports("fma") != 0}};
    case Isa::avx512:
      return {{"AVX512F", __builtin_cpu_supports("avx512f") != 0},
              {"AVX512CD", __builtin_cpu_supports("avx512cd") != 0},
              {"AVX512BW", __builtin_cpu_supports("avx512bw") != 0},
              {"AVX512DQ", __builtin_cpu_supports("avx512dq") != 0},
              {"AVX512VL", __builtin_cpu_supports("avx512vl") != 0},
              {"AVX512_BF16", __builtin_cpu_supports("avx512bf16") != 0},
              {"AVX512_VBMI", __builtin_cpu_supports("avx512vbmi") != 0},
              {"AVX512_VNNI", __builtin_cpu_supports("avx512vnni") != 0}};
  }
  return {};
#else
  if (isa == Isa::portable) return {};
  return {{"x86-64", false}};
#endif
}

std::vector<Isa> detect() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::portable}) {
    const std::string missing = missing_features(isa);
    if (missing.empty()) {
      found.push_back(isa);
    } else {
      logger().debug("cpu: {} declined: the machine lacks {}", to_string(isa), missing);
    }
  }
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

std::string missing_features(Isa isa) {
  std::string missing;
  for (const Feature& feature : features(isa)) {
    if (feature.present) continue;
    if (!missing.empty()) missing += ", ";
    missing += feature.name;
  }
  return missing;
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
