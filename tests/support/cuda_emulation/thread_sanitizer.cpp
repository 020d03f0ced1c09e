#include "cuda_emulation/thread_sanitizer.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(TAPE8_TSAN_FIBERS)
#include <sanitizer/tsan_interface.h>
#include <sys/mman.h>

extern "C" {
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
#endif

namespace cuda_emulation {

#if defined(TAPE8_TSAN_FIBERS)

void release(void* object) { __tsan_release(object); }
void acquire(void* object) { __tsan_acquire(object); }

SanitizedThread::~SanitizedThread() {
  if (inside_ != nullptr) __tsan_destroy_fiber(inside_);
}

void SanitizedThread::begin() {
  if (inside_ == nullptr) inside_ = __tsan_create_fiber(0);
  release(&begin_);
}

void SanitizedThread::begun() { acquire(&begin_); }

void SanitizedThread::enter() {
  outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(inside_, __tsan_switch_to_fiber_no_sync);
}

void SanitizedThread::leave() { __tsan_switch_to_fiber(outside_, __tsan_switch_to_fiber_no_sync); }

namespace {

/// Where the sanitizer takes what is done for nobody's.
struct Unseen {
  Unseen() { __tsan_ignore_thread_begin(); }
  ~Unseen() { __tsan_ignore_thread_end(); }
};

// A new mapping forgets who used its addresses before.

std::byte* take(std::size_t bytes) {
  const Unseen unseen;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

void give(std::byte* memory, std::size_t bytes) {
  const Unseen unseen;
  munmap(memory, bytes);
}

}  // namespace

#else

void release(void*) {}
void acquire(void*) {}

SanitizedThread::~SanitizedThread() = default;
void SanitizedThread::begin() {}
void SanitizedThread::begun() {}
void SanitizedThread::enter() {}
void SanitizedThread::leave() {}

namespace {

struct Unseen {
  Unseen() {}
};

std::byte* take(std::size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

void give(std::byte* memory, std::size_t) { std::free(memory); }

}  // namespace

#endif

FreshMemory::FreshMemory(std::size_t bytes)
    : data_(bytes == 0 ? nullptr : take(bytes)), bytes_(bytes) {}

FreshMemory::~FreshMemory() {
  if (data_ != nullptr) give(data_, bytes_);
}

FreshMemory::FreshMemory(FreshMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

FreshMemory& FreshMemory::operator=(FreshMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void FreshMemory::poison() {
  const Unseen unseen;
  if (bytes_ > 0) std::memset(data_, 0xFF, bytes_);
}

}  // namespace cuda_emulation
