#pragma once

#include <tape8/core/export.hpp>

namespace tape8 {

/// Threads that one op may use on the CPU, the caller's included. At first: OMP_NUM_THREADS, else
/// all cores. No result depends on it. Throws OptionError unless 1 <= n <= 4096.
TAPE8_API void set_num_threads(int n);
TAPE8_API int num_threads();

}  // namespace tape8
