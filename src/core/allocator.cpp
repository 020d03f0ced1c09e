#include "core/allocator.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

#include "core/fail.hpp"

namespace tape8 {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr std::size_t kLarge = std::size_t{1} << 20U;  // from here on, a mapping of its own

// A sanitizer sees a use after free only if the memory really is freed.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCaches = false;
#elif defined(__has_feature)
constexpr bool kCaches = !__has_feature(address_sanitizer);
#else
constexpr bool kCaches = true;
#endif

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

[[noreturn]] void fail_allocation(std::size_t bytes) {
  fail<BackendError>("cpu: allocation failed: got no {} bytes from the system", bytes);
}

}  // namespace

CachingAllocator& CachingAllocator::instance() {
  static auto* allocator = new CachingAllocator;
  return *allocator;
}

std::size_t CachingAllocator::rounded(std::size_t bytes) {
  const std::size_t wanted = std::max(bytes, kAlignment);
  const std::size_t step = std::max(std::bit_floor(wanted) / kStepsAnOctave, kAlignment);
  return round_up(wanted, step);
}

std::size_t CachingAllocator::index_of(std::size_t rounded_size) {
  const auto octave = static_cast<std::size_t>(std::bit_width(rounded_size) - 1);
  const std::size_t step = (std::size_t{1} << octave) / kStepsAnOctave;
  return octave * kStepsAnOctave + (rounded_size / step) % kStepsAnOctave;
}

std::size_t CachingAllocator::size_at(std::size_t index) {
  const std::size_t step = (std::size_t{1} << (index / kStepsAnOctave)) / kStepsAnOctave;
  return (kStepsAnOctave + index % kStepsAnOctave) * step;
}

void* CachingAllocator::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  if (size < bytes) fail_allocation(bytes);
  const std::lock_guard lock(mutex_);
  void* data = nullptr;
  if (!kCaches) {
    data = std::aligned_alloc(kAlignment, size);
    if (data == nullptr) fail_allocation(size);
  } else if (std::vector<void*>& list = free_[index_of(size)]; !list.empty()) {
    data = list.back();
    list.pop_back();
  } else {
    data = size >= kLarge ? map(size) : cut(size);
  }
  stats_.in_use_bytes += static_cast<std::int64_t>(size);
  return data;
}

void CachingAllocator::release(void* data, std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  stats_.in_use_bytes -= static_cast<std::int64_t>(size);
  if (kCaches) {
    free_[index_of(size)].push_back(data);
  } else {
    std::free(data);
  }
}

void* CachingAllocator::map(std::size_t bytes) {
  // A huge page more than needed, to align the start; the kernel counts only what is touched.
  const std::size_t size = round_up(bytes, kHugePage);
  void* mapped =
      ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail_allocation(bytes);
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t lead = round_up(reinterpret_cast<std::uintptr_t>(mapped), kHugePage) -
                           reinterpret_cast<std::uintptr_t>(mapped);
  if (lead > 0) ::munmap(begin, lead);
  if (lead < kHugePage) ::munmap(begin + lead + size, kHugePage - lead);
  ::madvise(begin + lead, size, MADV_HUGEPAGE);  // a wish: without huge pages it is merely slower
  stats_.reserved_bytes += static_cast<std::int64_t>(size);
  ++stats_.system_calls;
  return begin + lead;
}

void* CachingAllocator::cut(std::size_t bytes) {
  if (slab_left_ < bytes) {
    slab_ = static_cast<std::byte*>(map(kHugePage));
    slab_left_ = kHugePage;
  }
  void* data = slab_;
  slab_ += bytes;
  slab_left_ -= bytes;
  return data;
}

void CachingAllocator::release_cached() {
  const std::lock_guard lock(mutex_);
  for (std::size_t index = index_of(kLarge); index < kSizes; ++index) {
    std::vector<void*>& list = free_[index];
    const std::size_t mapped = list.empty() ? 0 : round_up(size_at(index), kHugePage);
    for (void* data : list) {
      ::munmap(data, mapped);
      stats_.reserved_bytes -= static_cast<std::int64_t>(mapped);
    }
    list.clear();
  }
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

MemoryStats cpu_memory() { return CachingAllocator::instance().stats(); }

void release_cached_memory() { CachingAllocator::instance().release_cached(); }

}  // namespace tape8
