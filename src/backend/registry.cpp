#include "backend/cpu/cpu_backend.hpp"
#include "core/fail.hpp"

namespace tape8 {

Backend& backend(const Device& device) {
  switch (device.type) {
    case DeviceType::cpu: {
      static const std::unique_ptr<Backend> cpu_backend = cpu::make_backend(cpu::selected_isa());
      return *cpu_backend;
    }
    case DeviceType::cuda:
      break;
  }
  fail<UnsupportedError>("{}: this build has no such backend", to_string(device));
}

}  // namespace tape8
