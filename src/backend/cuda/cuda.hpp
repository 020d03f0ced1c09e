#pragma once

#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "core/device_memory.hpp"

// What the rest of tape8 knows of the CUDA backend. Builds without it have absent.cpp.
namespace tape8::cuda {

/// One line for each GPU: its name and what its libraries do; empty where there is none to use.
struct Machine {
  bool built = false;
  std::string why_not;  // no GPU can be used; else empty
  std::vector<std::string> gpus;
};
Machine machine();

/// Throw UnsupportedError when CUDA is not built in, BackendError when there is no driver or no
/// such GPU.
Backend& backend_of(int gpu);
DeviceMemory& memory_of(int gpu);

}  // namespace tape8::cuda
