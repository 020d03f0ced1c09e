#include "backend/cuda/gemm_library.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "core/fail.hpp"

namespace tape8::cuda {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail<BackendError>("cuda: {}: {} ({}): {}", call, cublasLtGetStatusName(status),
                     static_cast<int>(status), cublasLtGetStatusString(status));
}

cudaDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
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

cublasLtMatmulMatrixScale_t library_scale_mode(ScalingMode mode) {
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

template <class Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

cublasOperation_t operation(const LibraryMatrix& matrix) {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cublasLtMatmulDesc_t make_description(const LibraryProblem& problem) {
  const bool f64 = problem.d == DType::f64;
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                 f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  return made;
}

/// The library's matrices are column-major: it computes the transpose, b first. Its A is our b.
void describe_to(cublasLtMatmulDesc_t description, const LibraryProblem& problem,
                 const LibraryMemory& memory) {
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, operation(problem.b));
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, operation(problem.a));
  if (memory.b_scales != nullptr) {
    set(description, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, library_scale_mode(problem.b.scaling_mode));
    set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, memory.b_scales);
  }
  if (memory.a_scales != nullptr) {
    set(description, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, library_scale_mode(problem.a.scaling_mode));
    set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, memory.a_scales);
  }
  if (problem.has_bias) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(problem.d));
  }
  if (problem.device_alpha) {
    set(description, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
  }
}

/// Of a row-major matrix, which the library takes for its column-major transpose.
cublasLtMatrixLayout_t make_layout(DType dtype, std::int64_t rows, std::int64_t cols,
                                   bool transposed) {
  if (transposed) std::swap(rows, cols);
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, library_type(dtype), static_cast<std::uint64_t>(cols),
                                   static_cast<std::uint64_t>(rows), cols),
        "cublasLtMatrixLayoutCreate");
  return made;
}

std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}

cublasLtHandle_t handle_of(int device) {
  // Never destroyed, as the handles are not.
  static auto& handles = *new std::map<int, cublasLtHandle_t>;
  const std::lock_guard lock(mutex());
  cublasLtHandle_t& handle = handles[device];
  if (handle == nullptr) check(cublasLtCreate(&handle), "cublasLtCreate");
  return handle;
}

}  // namespace

LibraryGemm::LibraryGemm(Context& context, const LibraryProblem& problem,
                         const LibraryMemory& memory)
    : context_(context),
      problem_(problem),
      memory_(memory),
      description_(make_description(problem)),
      a_(make_layout(problem.a.dtype, problem.m, problem.k, problem.a.transposed)),
      b_(make_layout(problem.b.dtype, problem.k, problem.n, problem.b.transposed)),
      d_(make_layout(problem.d, problem.m, problem.n, false)),
      handle_(handle_of(context.device())) {
  describe_to(description_.get(), problem, memory);
  found_ = known_or_looked_up(context.device());
}

LibraryAlgorithm LibraryGemm::look_up() const {
  constexpr std::uint64_t kMostWorkspace = std::uint64_t{32} << 20U;
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const LibraryOwned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  // Matrices may be parts of tensors, of which no more is known.
  constexpr std::uint32_t kAlignment = 16;
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(made, attribute, kAlignment);
  }
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, description_.get(), b_.get(), a_.get(), d_.get(),
                                     d_.get(), made, 1, &result, &count);
  if (status != CUBLAS_STATUS_SUCCESS) return {.status = status};
  if (count == 0) return {.status = CUBLAS_STATUS_NOT_SUPPORTED};
  return {result.state, result.algo, result.workspaceSize};
}

LibraryAlgorithm LibraryGemm::known_or_looked_up(int device) const {
  // Sizes may be ever new ones, as of batches of sentences; then all are forgotten now and again.
  constexpr std::size_t kMostKnown = 4096;
  static std::map<std::pair<int, LibraryProblem>, LibraryAlgorithm> known;
  const std::lock_guard lock(mutex());
  const std::pair key(device, problem_);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  if (known.size() >= kMostKnown) known.clear();
  return known[key] = look_up();
}

const char* LibraryGemm::why_none() const {
  return found_.status == CUBLAS_STATUS_SUCCESS ? nullptr : cublasLtGetStatusName(found_.status);
}

void LibraryGemm::run() const {
  constexpr double kOne = 1.0, kZero = 0.0;
  constexpr float kOneF32 = 1.0F, kZeroF32 = 0.0F;
  const void* alpha = &kOneF32;
  const void* beta = &kZeroF32;
  if (problem_.d == DType::f64) {
    alpha = &kOne;
    beta = &kZero;
  } else if (problem_.device_alpha) {
    alpha = memory_.alpha;
    beta = memory_.alpha + 1;
  }
  const Workspace workspace(context_, found_.workspace_bytes);
  check(cublasLtMatmul(handle_, description_.get(), alpha, memory_.b, b_.get(), memory_.a, a_.get(),
                       beta, memory_.d, d_.get(), memory_.d, d_.get(), &found_.algorithm,
                       workspace.as<void>(), found_.workspace_bytes, context_.stream()),
        "cublasLtMatmul");
}

}  // namespace tape8::cuda
