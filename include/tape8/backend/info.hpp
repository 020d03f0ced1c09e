#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tape8/core/export.hpp>

namespace tape8 {

/// Something that ops can run on, and whether this build and machine have it.
struct BackendInfo {
  std::string name;  ///< "cpu", "cuda"; for instruction sets "avx512", ...
  std::string description;
  bool available = false;
  std::string why_not;  ///< one line when it is not available or not in use, else empty
};

/// All device types.
TAPE8_API std::vector<BackendInfo> backends();
/// The instruction sets that the CPU kernels are written for, fastest first.
TAPE8_API std::vector<BackendInfo> cpu_isas();
/// The name of the set in use: what set_cpu_isa() chose, else what TAPE8_ISA names, else the
/// fastest available. Throws OptionError when TAPE8_ISA cannot be had.
TAPE8_API std::string cpu_isa();
/// Chooses the set for all threads, from their next op on; no result depends on it. Throws
/// OptionError for a set that is unknown or that this machine lacks.
TAPE8_API void set_cpu_isa(std::string_view name);

}  // namespace tape8
