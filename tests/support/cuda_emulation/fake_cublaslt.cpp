// cuBLASLt's calls that tape8 makes, computed on the CPU; it refuses what the library's
// documentation says that it does not take.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <cublasLt.h>
#include <vector>

#include <cuda_bf16.h>

#include "cuda_emulation/emulation.hpp"

namespace {

struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
};

struct Matrix {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, cols = 0;
  std::int64_t stride = 0;
};

struct Wish {
  std::uint64_t workspace = 0;
  std::uint32_t a_alignment = 256, b_alignment = 256;  // the library's defaults
};

Description& of(cublasLtMatmulDesc_t handle) { return *reinterpret_cast<Description*>(handle); }
Matrix& of(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Matrix*>(handle); }

std::int64_t bytes_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16BF:
    case CUDA_R_16F:
      return 2;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_64F:
      return 8;
    default:
      return 0;
  }
}

template <class T, class Object>
cublasStatus_t set(Object& object, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(Object)) return CUBLAS_STATUS_INVALID_VALUE;
  T copy;
  std::memcpy(&copy, value, sizeof(T));
  object = static_cast<Object>(copy);
  return CUBLAS_STATUS_SUCCESS;
}

bool is_multiple_of_16(std::int64_t bytes) { return bytes % 16 == 0; }

/// Whether the library has a kernel for these: sizes are those of op(a) [m, k] and op(b) [k, n].
bool is_supported(const Description& description, const Matrix& a, const Matrix& b, const Matrix& c,
                  const Matrix& d) {
  if (description.compute == CUBLAS_COMPUTE_64F) {
    return a.type == CUDA_R_64F && b.type == CUDA_R_64F && d.type == CUDA_R_64F &&
           description.scale == CUDA_R_64F;
  }
  const bool types = (a.type == CUDA_R_16BF || a.type == CUDA_R_32F) && a.type == b.type &&
                     d.type == CUDA_R_32F && c.type == d.type && description.scale == CUDA_R_32F;
  return types && is_multiple_of_16(static_cast<std::int64_t>(a.rows) * bytes_of(a.type)) &&
         is_multiple_of_16(static_cast<std::int64_t>(b.rows) * bytes_of(b.type)) &&
         is_multiple_of_16(static_cast<std::int64_t>(d.rows) * bytes_of(d.type)) &&
         is_multiple_of_16(a.stride * bytes_of(a.type)) &&
         is_multiple_of_16(b.stride * bytes_of(b.type)) &&
         is_multiple_of_16(d.stride * bytes_of(d.type));
}

struct Sizes {
  std::uint64_t m = 0, n = 0, k = 0;
};

bool fits(const Description& description, const Matrix& a, const Matrix& b, const Matrix& d,
          Sizes& sizes) {
  const bool a_plain = description.a == CUBLAS_OP_N;
  const bool b_plain = description.b == CUBLAS_OP_N;
  sizes = {a_plain ? a.rows : a.cols, b_plain ? b.cols : b.rows, a_plain ? a.cols : a.rows};
  const auto strided = [](const Matrix& matrix) {
    return matrix.stride >= static_cast<std::int64_t>(matrix.rows);
  };
  return sizes.k == (b_plain ? b.rows : b.cols) && d.rows == sizes.m && d.cols == sizes.n &&
         strided(a) && strided(b) && strided(d);
}

double load(const void* data, cudaDataType_t type, std::uint64_t index) {
  switch (type) {
    case CUDA_R_16BF:
      return static_cast<float>(static_cast<const __nv_bfloat16*>(data)[index]);
    case CUDA_R_32F:
      return static_cast<const float*>(data)[index];
    default:
      return static_cast<const double*>(data)[index];
  }
}

/// op(matrix), row-major.
std::vector<double> values_of(const void* data, const Matrix& matrix, bool transposed) {
  std::vector<double> values(matrix.rows * matrix.cols);
  for (std::uint64_t col = 0; col < matrix.cols; ++col) {
    for (std::uint64_t row = 0; row < matrix.rows; ++row) {
      const std::uint64_t place = transposed ? col * matrix.rows + row : row * matrix.cols + col;
      values[place] =
          load(data, matrix.type, col * static_cast<std::uint64_t>(matrix.stride) + row);
    }
  }
  return values;
}

std::size_t extent_of(const Matrix& matrix) {
  return static_cast<std::size_t>(matrix.stride) * matrix.cols *
         static_cast<std::size_t>(bytes_of(matrix.type));
}

bool is_usable(const void* data, std::size_t bytes, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0 &&
         cuda_emulation::is_device_memory(data, bytes);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int{0});
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  *description =
      reinterpret_cast<cublasLtMatmulDesc_t>(new Description{.compute = compute, .scale = scale});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &of(description);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set<cublasOperation_t>(of(description).a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set<cublasOperation_t>(of(description).b, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t stride) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Matrix{.type = type, .rows = rows, .cols = cols, .stride = stride});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Wish);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Wish*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  auto& wish = *reinterpret_cast<Wish*>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set<std::uint64_t>(wish.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set<std::uint32_t>(wish.a_alignment, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set<std::uint32_t>(wish.b_alignment, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  Sizes sizes;
  if (wanted < 1 || !fits(of(description), of(a), of(b), of(d), sizes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!is_supported(of(description), of(a), of(b), of(c), of(d))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  results[0] = {};
  results[0].workspaceSize = 256;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  const Wish& wish = *reinterpret_cast<Wish*>(preference);
  results[0].algo.data[0] = wish.a_alignment;
  results[0].algo.data[1] = wish.b_alignment;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void*,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t) {
  const Description& what = of(description);
  const Matrix& d_matrix = of(d_layout);
  Sizes sizes;
  if (!fits(what, of(a_layout), of(b_layout), d_matrix, sizes)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(what, of(a_layout), of(b_layout), of(c_layout), d_matrix)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool f64 = what.scale == CUDA_R_64F;
  const double factor = load(alpha, what.scale, 0);
  if (load(beta, what.scale, 0) != 0.0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!is_usable(a, extent_of(of(a_layout)), algorithm->data[0]) ||
      !is_usable(b, extent_of(of(b_layout)), algorithm->data[1]) ||
      !is_usable(d, extent_of(d_matrix), 256) ||
      (workspace_bytes > 0 && reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::vector<double> left = values_of(a, of(a_layout), what.a == CUBLAS_OP_T);
  const std::vector<double> right = values_of(b, of(b_layout), what.b == CUBLAS_OP_T);
  for (std::uint64_t row = 0; row < sizes.m; ++row) {
    for (std::uint64_t col = 0; col < sizes.n; ++col) {
      double sum = 0.0;
      for (std::uint64_t k = 0; k < sizes.k; ++k) {
        sum += left[row * sizes.k + k] * right[k * sizes.n + col];
      }
      const std::uint64_t place = col * static_cast<std::uint64_t>(d_matrix.stride) + row;
      if (f64) {
        static_cast<double*>(d)[place] = factor * sum;
      } else {
        static_cast<float*>(d)[place] = static_cast<float>(factor * sum);
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
