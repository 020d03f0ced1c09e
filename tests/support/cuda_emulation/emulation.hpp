#pragma once

#include <cstddef>
#include <cstdint>
#include <driver_types.h>
#include <limits>
#include <stdexcept>
#include <vector>

/// A machine with GPUs that are none: kernels run on the CPU, each CUDA thread of a block as a
/// fiber, behind CUDA's own headers. What a GPU would leave undefined is an error here.
namespace cuda_emulation {

/// A kernel or a call broke a rule. Thrown by the launch or the call.
struct Error : std::logic_error {
  using std::logic_error::logic_error;
};

/// In which order the threads of a block run on from a barrier, and blocks one after another. A
/// kernel whose result depends on it lacks a barrier, or its blocks race.
enum class Schedule {
  forward,
  reverse,
  random,       ///< another order each time, from a seed
  greedy_warp,  ///< a warp runs as far as it can before another begins; blocks as forward
};
inline constexpr Schedule kSchedules[] = {Schedule::forward, Schedule::reverse, Schedule::random,
                                          Schedule::greedy_warp};

/// For all launches from now on. At first it is what TAPE8_CUDA_SCHEDULE names, else forward.
void set_schedule(Schedule schedule, std::uint32_t seed = 1);
Schedule schedule();

/// What the machine has; a test may change it.
struct Machine {
  cudaError_t driver = cudaSuccess;  ///< what looking for GPUs fails with, such as no driver
  /// One for each GPU, 10 * major + minor.
  std::vector<int> compute_capabilities{90, 80, 89, 100, 120};
  std::size_t memory = std::numeric_limits<std::size_t>::max();  ///< bytes of all GPUs together
};
Machine& machine();

/// Calls since the program began.
struct Counters {
  std::int64_t launches = 0;
  std::int64_t synchronizations = 0;
  std::int64_t allocations = 0;
  std::int64_t allocated_bytes = 0;  ///< now
};
const Counters& counters();

/// True for memory that a GPU has allocated, all `bytes` of it.
bool is_device_memory(const void* data, std::size_t bytes);

}  // namespace cuda_emulation
