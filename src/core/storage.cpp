#include "core/storage.hpp"

#include <utility>

#include "core/allocator.hpp"
#include "core/device_memory.hpp"

namespace tape8 {

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, const Device& device) {
  DeviceMemory* memory = device.type == DeviceType::cpu ? nullptr : &device_memory(device);
  void* data =
      memory == nullptr ? CachingAllocator::instance().allocate(bytes) : memory->allocate(bytes);
  auto storage = std::make_shared<Storage>(data, bytes, device, Deleter{});
  storage->owned_ = true;
  storage->memory_ = memory;
  return storage;
}

Storage::Storage(void* data, std::size_t bytes, const Device& device, Deleter deleter)
    : data_(data), bytes_(bytes), device_(device), deleter_(std::move(deleter)) {}

Storage::~Storage() {
  if (owned_ && memory_ == nullptr) CachingAllocator::instance().release(data_, bytes_);
  if (owned_ && memory_ != nullptr) memory_->release(data_);
  if (deleter_) deleter_(data_);
}

}  // namespace tape8
