#pragma once

#include <driver_types.h>

namespace tape8::cuda {

/// Throws BackendError with the call, the code and CUDA's text for it.
[[noreturn]] void fail_call(cudaError_t status, const char* call);

/// To be put around every call of the runtime's.
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) fail_call(status, call);
}

/// Throws UnsupportedError: "cuda: <op>: <what> ...".
[[noreturn]] void refuse(const char* op, const char* what);

}  // namespace tape8::cuda
