#include "core/storage.hpp"

#include <cstdlib>
#include <new>

#include "core/fail.hpp"

namespace tape8 {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, const Device& device) {
  if (device.type != DeviceType::cpu) {
    fail<UnsupportedError>("{}: this build has no such backend", to_string(device));
  }
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) fail<BackendError>("cpu: allocation of {} bytes failed", rounded);
  return std::make_shared<Storage>(data, bytes, device, [](void* memory) { std::free(memory); });
}

Storage::Storage(void* data, std::size_t bytes, const Device& device, Deleter deleter)
    : data_(data), bytes_(bytes), device_(device), deleter_(std::move(deleter)) {}

Storage::~Storage() {
  if (deleter_) deleter_(data_);
}

}  // namespace tape8
