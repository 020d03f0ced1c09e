#pragma once

#include <vector>

#include <tape8/core/device.hpp>
#include <tape8/core/dtype.hpp>
#include <tape8/core/scaling.hpp>

#include "cuda_emulation/emulation.hpp"
#include "cuda_emulation/fake_cublaslt.hpp"

namespace tape8::test {

/// The matmuls that cuBLASLt computes while it is there.
class MatmulLog {
 public:
  MatmulLog() {
    cuda_emulation::library().on_matmul = [this](const cuda_emulation::Matmul& matmul) {
      matmuls_.push_back(matmul);
    };
  }
  ~MatmulLog() { cuda_emulation::library().on_matmul = nullptr; }
  MatmulLog(const MatmulLog&) = delete;
  MatmulLog& operator=(const MatmulLog&) = delete;

  const std::vector<cuda_emulation::Matmul>& matmuls() const { return matmuls_; }

 private:
  std::vector<cuda_emulation::Matmul> matmuls_;
};

inline int capability_of(Device gpu) {
  return cuda_emulation::machine().compute_capabilities.at(static_cast<std::size_t>(gpu.index));
}

// cuBLASLt's names, said apart from the backend.

inline cudaDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    case DType::e5m2:
      return CUDA_R_8F_E5M2;
    case DType::e2m1:
      return CUDA_R_4F_E2M1;
    default:
      return CUDA_R_32F;
  }
}

inline int library_mode(ScalingMode mode) {
  switch (mode) {
    case ScalingMode::mxfp8_1d:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    case ScalingMode::float8_block_1d:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case ScalingMode::float8_block_2d:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    case ScalingMode::nvfp4_1d:
    case ScalingMode::nvfp4_2d:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
    default:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  }
}

}  // namespace tape8::test
