#pragma once

#include <cublasLt.h>
#include <memory>
#include <type_traits>

#include "backend/cuda/context.hpp"
#include "backend/cuda/gemm_plan.hpp"

namespace tape8::cuda {

/// A GPU's memory for a problem.
struct LibraryMemory {
  const void* a = nullptr;
  const void* b = nullptr;
  /// As the matrices' scaling modes say: one for the tensor, or those of blocks as arrange_scales
  /// lays them. Null: none.
  const void* a_scales = nullptr;
  const void* b_scales = nullptr;
  const void* bias = nullptr;
  const float* alpha = nullptr;  // with device_alpha; beta, a zero, comes after it
  void* d = nullptr;
};

template <class Object, cublasStatus_t (*kDestroy)(Object)>
struct LibraryDestroy {
  void operator()(Object object) const { kDestroy(object); }
};

template <class Object, cublasStatus_t (*kDestroy)(Object)>
using LibraryOwned =
    std::unique_ptr<std::remove_pointer_t<Object>, LibraryDestroy<Object, kDestroy>>;

/// What has been found for a problem.
struct LibraryAlgorithm {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;  // else there is none
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
};

/// A matmul by cuBLASLt. Its algorithm is looked up once for all problems that are alike. Throws
/// BackendError with the call and the library's text for what went wrong.
class LibraryGemm {
 public:
  LibraryGemm(Context& context, const LibraryProblem& problem, const LibraryMemory& memory);

  /// Null, or the library's word for why it has no algorithm.
  const char* why_none() const;
  /// Puts the matmul on the context's stream.
  void run() const;

 private:
  using Description = LibraryOwned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
  using Layout = LibraryOwned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  LibraryAlgorithm look_up() const;
  LibraryAlgorithm known_or_looked_up(int device) const;

  Context& context_;
  LibraryProblem problem_;
  LibraryMemory memory_;
  Description description_;
  Layout a_, b_, d_;
  cublasLtHandle_t handle_ = nullptr;
  LibraryAlgorithm found_;
};

}  // namespace tape8::cuda
