#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

#include <tape8/core/memory.hpp>

namespace tape8 {

/// Caches CPU memory by size. Sizes are rounded up to four steps an octave. Large blocks are
/// mappings of their own, aligned to huge pages and advised to be made of them; small ones are cut
/// from such mappings. Safe to use from several threads.
class CachingAllocator {
 public:
  /// The one that tensors use. Never destroyed: tensors with static lifetime may outlive main.
  static CachingAllocator& instance();

  /// At least `bytes`, 64-byte aligned, values not set. Throws BackendError when the system has no
  /// more.
  void* allocate(std::size_t bytes);
  /// `bytes` as in allocate().
  void release(void* data, std::size_t bytes);

  void release_cached();
  MemoryStats stats() const;

  /// What allocate(bytes) sets aside.
  static std::size_t rounded(std::size_t bytes);

 private:
  static constexpr std::size_t kStepsAnOctave = 4;
  static constexpr std::size_t kSizes = 64 * kStepsAnOctave;

  /// The place in free_ of blocks of a rounded size, and the size of those in a place.
  static std::size_t index_of(std::size_t rounded_size);
  static std::size_t size_at(std::size_t index);

  void* map(std::size_t bytes);
  void* cut(std::size_t bytes);

  mutable std::mutex mutex_;
  std::array<std::vector<void*>, kSizes> free_;  // by rounded size
  std::byte* slab_ = nullptr;                    // what is left of the newest mapping to cut
  std::size_t slab_left_ = 0;
  MemoryStats stats_;
};

}  // namespace tape8
