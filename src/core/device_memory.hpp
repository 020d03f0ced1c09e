#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <tape8/core/device.hpp>
#include <tape8/core/dtype.hpp>
#include <tape8/core/shape.hpp>

namespace tape8 {

/// Elements of a device's memory, sizes[i] of them along axis i, strides[i] elements apart.
struct StridedView {
  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{}, strides{};
};

/// The memory of one device other than the CPU. Calls take effect in the order in which they are
/// made, as ops on that device do; those that give the host something wait for it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  /// 256-byte aligned, values not set. Throws BackendError when the device has no more.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;
  /// The host's memory may be changed as soon as upload() returns.
  virtual void upload(void* to, const void* from_host, std::size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void set_bytes(void* to, std::byte value, std::size_t bytes) = 0;
  /// Copies each element, rounded once; `from` may have strides of 0.
  virtual void convert(const StridedView& to, const StridedView& from) = 0;
};

/// Of a device that is not the CPU; throws UnsupportedError when this build has none, BackendError
/// when there is no such device. The backend layer defines it.
DeviceMemory& device_memory(const Device& device);

}  // namespace tape8
