#include "backend/cuda/cuda.hpp"
#include "core/fail.hpp"

namespace tape8::cuda {
namespace {

[[noreturn]] void fail_absent(int gpu) {
  fail<UnsupportedError>("cuda:{}: this build has no such backend", gpu);
}

}  // namespace

Machine machine() { return {.built = false, .why_not = "not built", .gpus = {}}; }

Backend& backend_of(int gpu) { fail_absent(gpu); }

DeviceMemory& memory_of(int gpu) { fail_absent(gpu); }

}  // namespace tape8::cuda
