#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <tape8/core/device.hpp>

namespace tape8 {

class DeviceMemory;

/// A block of memory on one device, with a counter of the changes made to it.
class Storage {
 public:
  using Deleter = std::function<void(void*)>;

  /// `bytes` of the device's memory, 64-byte aligned, values not set.
  static std::shared_ptr<Storage> allocate(std::size_t bytes, const Device& device);
  Storage(void* data, std::size_t bytes, const Device& device, Deleter deleter);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t nbytes() const { return bytes_; }
  const Device& device() const { return device_; }
  /// False for memory that is the user's.
  bool owned() const { return owned_; }
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void* data_;
  std::size_t bytes_;
  Device device_;
  DeviceMemory* memory_ = nullptr;  // null: the CPU's
  Deleter deleter_;
  bool owned_ = false;  // from the device's allocator
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace tape8
