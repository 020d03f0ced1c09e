#pragma once

#include <string>
#include <vector>

#include <tape8/tape8.hpp>

#include "bench/measure.hpp"

namespace tape8::tools::bench {

/// Where figures are measured: on so many threads of the CPU, or on a GPU.
struct Place {
  Device device;
  int threads = 1;

  bool is_cpu() const { return device.type == DeviceType::cpu; }
  /// Ends the names of figures: "2t", "cuda:0".
  std::string suffix() const;
  /// Before what is measured is made.
  void enter() const;
  /// Returns once the device has done all it was told to; empty for the CPU, whose calls do that.
  Call finish() const;
};

}  // namespace tape8::tools::bench
