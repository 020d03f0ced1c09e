#include "core/storage.hpp"

#include <utility>

#include "core/allocator.hpp"
#include "core/fail.hpp"

namespace tape8 {
std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, const Device& device) {
  if (device.type != DeviceType::cpu) {
    fail<UnsupportedError>("{}: this build has no such backend", to_string(device));
  }
  void* data = CachingAllocator::instance().allocate(bytes);
  auto storage = std::make_shared<Storage>(data, bytes, device, Deleter{});
  storage->owned_ = true;
  return storage;
}

Storage::Storage(void* data, std::size_t bytes, const Device& device, Deleter deleter)
    : data_(data), bytes_(bytes), device_(device), deleter_(std::move(deleter)) {}

Storage::~Storage() {
  if (owned_) CachingAllocator::instance().release(data_, bytes_);
  if (deleter_) deleter_(data_);
}

}  // namespace tape8
