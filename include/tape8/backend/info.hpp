#pragma once

#include <string>
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
/// The name of the set in use: the fastest available, or what TAPE8_ISA names. Throws OptionError
/// when that cannot be had.
TAPE8_API std::string cpu_isa();

}  // namespace tape8
