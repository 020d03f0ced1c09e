#include "backend/cuda/check.hpp"

#include <cuda_runtime_api.h>

#include "core/fail.hpp"

namespace tape8::cuda {

void fail_call(cudaError_t status, const char* call) {
  fail<BackendError>("cuda: {}: {} ({}): {}", call, cudaGetErrorName(status),
                     static_cast<int>(status), cudaGetErrorString(status));
}

void refuse(const char* op, const char* what) { fail<UnsupportedError>("cuda: {}: {}", op, what); }

}  // namespace tape8::cuda
