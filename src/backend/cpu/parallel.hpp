#pragma once

#include <algorithm>
#include <cstdint>

#include <omp.h>

#include <tape8/core/threads.hpp>

namespace tape8::cpu {

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Single-thread work below which starting a thread team costs more than it saves.
inline constexpr double kSerialNanoseconds = 20000.0;

/// Calls body(begin, end) over consecutive ranges that cover [0, count), on a thread each where
/// `count` items of about `item_nanoseconds` are worth a team. The body must not throw and must
/// give results that do not depend on where the ranges are cut.
template <class Body>
void parallel_for(std::int64_t count, double item_nanoseconds, const Body& body) {
  if (count <= 0) return;
  const double total = static_cast<double>(count) * item_nanoseconds;
  const int threads = static_cast<int>(std::min<std::int64_t>(num_threads(), count));
  if (threads <= 1 || total < kSerialNanoseconds || omp_in_parallel() != 0) {
    body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t parts = omp_get_num_threads();
    const std::int64_t part = omp_get_thread_num();
    const std::int64_t begin = count * part / parts;
    const std::int64_t end = count * (part + 1) / parts;
    if (begin < end) body(begin, end);
  }
}

}  // namespace tape8::cpu
