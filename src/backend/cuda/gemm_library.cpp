#include <cublasLt.h>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "backend/cuda/gemm_operand.hpp"
#include "core/fail.hpp"

namespace tape8::cuda {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail<BackendError>("cuda: {}: {} ({}): {}", call, cublasLtGetStatusName(status),
                     static_cast<int>(status), cublasLtGetStatusString(status));
}

template <class Object, cublasStatus_t (*kDestroy)(Object)>
struct Destroy {
  void operator()(Object object) const { kDestroy(object); }
};

template <class Object, cublasStatus_t (*kDestroy)(Object)>
using Owned = std::unique_ptr<std::remove_pointer_t<Object>, Destroy<Object, kDestroy>>;

using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

Description make_description(const LibraryGemm& gemm) {
  const bool f64 = gemm.type == GemmType::f64;
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                 f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  Description description(made);
  // The library's matrices are column-major: it computes the transpose, b first.
  const cublasOperation_t first = gemm.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = gemm.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)),
        "cublasLtMatmulDescSetAttribute");
  check(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second)),
        "cublasLtMatmulDescSetAttribute");
  return description;
}

/// Of a row-major matrix, which the library takes for its column-major transpose.
Layout make_layout(cudaDataType_t type, std::int64_t rows, std::int64_t cols) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(cols),
                                   static_cast<std::uint64_t>(rows), cols),
        "cublasLtMatrixLayoutCreate");
  return Layout(made);
}

/// All that describes a matmul to the library.
struct Problem {
  explicit Problem(const LibraryGemm& gemm)
      : description(make_description(gemm)),
        a(gemm.a_transposed ? make_layout(library_type(gemm.type), gemm.k, gemm.m)
                            : make_layout(library_type(gemm.type), gemm.m, gemm.k)),
        b(gemm.b_transposed ? make_layout(library_type(gemm.type), gemm.n, gemm.k)
                            : make_layout(library_type(gemm.type), gemm.k, gemm.n)),
        product(make_layout(gemm.type == GemmType::f64 ? CUDA_R_64F : CUDA_R_32F, gemm.m, gemm.n)) {
  }

  Description description;
  Layout a, b, product;
};

cublasLtHandle_t handle_of(const Context& context) {
  // Never destroyed, as the handles are not.
  static auto& handles = *new std::map<int, cublasLtHandle_t>;
  cublasLtHandle_t& handle = handles[context.device()];
  if (handle == nullptr) check(cublasLtCreate(&handle), "cublasLtCreate");
  return handle;
}

cublasLtMatmulHeuristicResult_t find_algorithm(cublasLtHandle_t handle, const Problem& problem) {
  constexpr std::uint64_t kMostWorkspace = std::uint64_t{32} << 20U;
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Preference preference(made);
  check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &kMostWorkspace, sizeof(kMostWorkspace)),
        "cublasLtMatmulPreferenceSetAttribute");
  // Operands may be parts of tensors, of which no more is known.
  constexpr std::uint32_t kAlignment = 16;
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES}) {
    check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &kAlignment, sizeof(kAlignment)),
          "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, problem.description.get(), problem.b.get(),
                                       problem.a.get(), problem.product.get(),
                                       problem.product.get(), made, 1, &result, &found),
        "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) fail<BackendError>("cuda: cublasLtMatmulAlgoGetHeuristic: found no algorithm");
  check(result.state, "cublasLtMatmulAlgoGetHeuristic");
  return result;
}

/// What has been found for a problem is used for all that are like it.
cublasLtMatmulHeuristicResult_t known_algorithm(const Context& context, const LibraryGemm& gemm,
                                                cublasLtHandle_t handle, const Problem& problem) {
  using Key = std::tuple<int, GemmType, std::int64_t, std::int64_t, std::int64_t, bool, bool>;
  static std::map<Key, cublasLtMatmulHeuristicResult_t> known;
  const Key key{context.device(), gemm.type,         gemm.m,           gemm.n,
                gemm.k,           gemm.a_transposed, gemm.b_transposed};
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, find_algorithm(handle, problem)).first->second;
}

}  // namespace

void library_gemm(Context& context, const LibraryGemm& gemm) {
  static std::mutex mutex;
  const Problem problem(gemm);
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulHeuristicResult_t algorithm{};
  {
    const std::lock_guard lock(mutex);
    handle = handle_of(context);
    algorithm = known_algorithm(context, gemm, handle, problem);
  }
  const Workspace workspace(context, algorithm.workspaceSize);
  const double one = 1.0, zero = 0.0;
  const float one_f32 = 1.0F, zero_f32 = 0.0F;
  const bool f64 = gemm.type == GemmType::f64;
  check(cublasLtMatmul(handle, problem.description.get(),
                       f64 ? static_cast<const void*>(&one) : &one_f32, gemm.b, problem.b.get(),
                       gemm.a, problem.a.get(), f64 ? static_cast<const void*>(&zero) : &zero_f32,
                       gemm.product, problem.product.get(), gemm.product, problem.product.get(),
                       &algorithm.algo, workspace.as<void>(), algorithm.workspaceSize,
                       context.stream()),
        "cublasLtMatmul");
}

}  // namespace tape8::cuda
