#pragma once

#include <cstddef>

// How the thread sanitizer sees the emulation: each thread of a block is a thread to it, and only
// barriers, __syncwarp() and the ends of a launch order what threads do with memory. So it reports
// races that no schedule shows. The emulation's own code is built without it, and with
// TAPE8_TSAN_FIBERS (tests/cuda/CMakeLists.txt).

namespace cuda_emulation {

#if defined(TAPE8_TSAN_FIBERS)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

/// What the running thread did so far comes before all that a thread does after acquire().
void release(void* object);
void acquire(void* object);

/// A thread to the sanitizer.
class SanitizedThread {
 public:
  SanitizedThread() = default;
  ~SanitizedThread();
  SanitizedThread(const SanitizedThread&) = delete;
  SanitizedThread& operator=(const SanitizedThread&) = delete;

  /// What it does after begun() comes after what the caller of begin() did so far.
  void begin();
  void begun();
  /// Before its stack is switched to, and before it is left.
  void enter();
  void leave();

 private:
  void* inside_ = nullptr;
  void* outside_ = nullptr;
  char begin_ = 0;
};

/// Memory that races with no earlier owner of its addresses. But for the thread sanitizer it is the
/// heap's, where the address sanitizer sees an overrun.
class FreshMemory {
 public:
  FreshMemory() = default;
  explicit FreshMemory(std::size_t bytes);
  ~FreshMemory();
  FreshMemory(FreshMemory&& other) noexcept;
  FreshMemory& operator=(FreshMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Sets each byte to 0xff, in nobody's name.
  void poison();

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace cuda_emulation
