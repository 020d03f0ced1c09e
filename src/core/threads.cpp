#include <atomic>

#include <omp.h>

#include <tape8/core/threads.hpp>

#include "core/fail.hpp"

namespace tape8 {
namespace {

constexpr int kMaxThreads = 4096;

std::atomic<int>& thread_count() {
  static std::atomic<int> count{omp_get_max_threads()};
  return count;
}

}  // namespace

void set_num_threads(int n) {
  if (n < 1 || n > kMaxThreads) {
    fail<OptionError>("set_num_threads: n must be at least 1 and at most {}: got {}", kMaxThreads,
                      n);
  }
  thread_count() = n;
}

int num_threads() { return thread_count(); }

}  // namespace tape8
