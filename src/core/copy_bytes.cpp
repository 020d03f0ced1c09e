#include "core/copy_bytes.hpp"

#include <cstring>
#include <memory>

#include "core/device_memory.hpp"

namespace tape8 {

void copy_bytes(const Tensor& from, Tensor& to) {
  const auto bytes = static_cast<std::size_t>(from.nbytes());
  if (bytes == 0) return;
  const Device source = from.device();
  const Device target = to.device();
  void* data = to.mutable_data();
  if (source.type == DeviceType::cpu && target.type == DeviceType::cpu) {
    std::memcpy(data, from.data(), bytes);
  } else if (source.type == DeviceType::cpu) {
    device_memory(target).upload(data, from.data(), bytes);
  } else if (target.type == DeviceType::cpu) {
    device_memory(source).download(data, from.data(), bytes);
  } else if (source == target) {
    device_memory(source).copy(data, from.data(), bytes);
  } else {
    // Two GPUs: their orders meet on the host.
    const auto host = std::make_unique<std::byte[]>(bytes);
    device_memory(source).download(host.get(), from.data(), bytes);
    device_memory(target).upload(data, host.get(), bytes);
  }
}

}  // namespace tape8
