#pragma once

#include <cstdint>

#include <tape8/core/export.hpp>

namespace tape8 {

/// What the CPU tensors' allocator holds. It keeps what tensors give back and hands it out again,
/// so that a training loop touches no fresh pages after its first step.
struct MemoryStats {
  std::int64_t in_use_bytes = 0;    ///< held by live tensors, rounded up to the allocator's sizes
  std::int64_t reserved_bytes = 0;  ///< taken from the system: in use, or waiting to be
  std::int64_t system_calls = 0;    ///< times that memory was taken from the system so far
};

TAPE8_API MemoryStats cpu_memory();

/// Gives large blocks that no tensor uses back to the system.
TAPE8_API void release_cached_memory();

}  // namespace tape8
