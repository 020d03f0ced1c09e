#pragma once

#include <string>
#include <string_view>

#include <tape8/core/export.hpp>

namespace tape8 {

enum class DeviceType { cpu, cuda };

/// Where a tensor's memory lies and its ops run. The default is the CPU.
struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0".
TAPE8_API std::string to_string(const Device& device);
/// The device of that name; "cuda" is "cuda:0". Throws OptionError for another name.
TAPE8_API Device device_from(std::string_view name);

}  // namespace tape8
