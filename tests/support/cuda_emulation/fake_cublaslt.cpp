#include "cuda_emulation/fake_cublaslt.hpp"

#include <algorithm>

#include <cuda_runtime_api.h>

#include "cuda_emulation/emulation.hpp"

namespace cuda_emulation {
namespace {

constexpr Attributes::Value kInt{4, 0};
constexpr Attributes::Value kLong{8, 0};  // also pointers
constexpr Attributes::Value kUnset{4, 0xFFFFFFFF};
constexpr Attributes::Value kAlignment{4, 256};

const std::map<int, Attributes::Value> kDescription = {
    {CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, kInt},
    {CUBLASLT_MATMUL_DESC_SCALE_TYPE, kInt},
    {CUBLASLT_MATMUL_DESC_POINTER_MODE, kInt},
    {CUBLASLT_MATMUL_DESC_TRANSA, kInt},
    {CUBLASLT_MATMUL_DESC_TRANSB, kInt},
    {CUBLASLT_MATMUL_DESC_TRANSC, kInt},
    {CUBLASLT_MATMUL_DESC_FILL_MODE, {4, CUBLAS_FILL_MODE_FULL}},
    {CUBLASLT_MATMUL_DESC_EPILOGUE, {4, CUBLASLT_EPILOGUE_DEFAULT}},
    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, kLong},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, kLong},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, kLong},
    {CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, kLong},
    {CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, kInt},
    {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, kUnset},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_FAST_ACCUM, {1, 0}},
    {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, kUnset},
    {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, kInt},
    {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, kInt},
    {CUBLASLT_MATMUL_DESC_C_SCALE_MODE, kInt},
    {CUBLASLT_MATMUL_DESC_D_SCALE_MODE, kInt},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, kInt},
    {CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, kLong},
    {CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, kInt}};

const std::map<int, Attributes::Value> kLayout = {
    {CUBLASLT_MATRIX_LAYOUT_TYPE, kInt},
    {CUBLASLT_MATRIX_LAYOUT_ORDER, kInt},
    {CUBLASLT_MATRIX_LAYOUT_ROWS, kLong},
    {CUBLASLT_MATRIX_LAYOUT_COLS, kLong},
    {CUBLASLT_MATRIX_LAYOUT_LD, kLong},
    {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, {4, 1}},
    {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, kLong},
    {CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, kLong}};

const std::map<int, Attributes::Value> kPreference = {
    {CUBLASLT_MATMUL_PREF_SEARCH_MODE, kInt},
    {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kLong},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kAlignment},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kAlignment},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment}};

/// Handles point to Attributes.
template <class Handle>
Attributes& of(Handle handle) {
  return *reinterpret_cast<Attributes*>(handle);
}

template <class Handle>
Attributes& create(Handle* handle, const std::map<int, Attributes::Value>& at_first) {
  auto* made = new Attributes(at_first);
  *handle = reinterpret_cast<Handle>(made);
  return *made;
}

template <class Handle>
cublasStatus_t destroy(Handle handle) {
  delete &of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t refused(const Refusal& refusal) {
  library().refusal = refusal.why;
  return refusal.status;
}

Matmul matmul_of(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                 cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                 cublasLtMatrixLayout_t d) {
  return {of(description), of(a), of(b), of(c), of(d), *reinterpret_cast<const int*>(handle)};
}

/// Differs for matmuls that differ in more than their pointers' values.
std::uint64_t fingerprint(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                          cublasLtMatrixLayout_t d) {
  std::uint64_t hash = 0;
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3 + 1; };
  for (const auto& [number, value] : of(description).values()) {
    const std::string_view pointers = "\x08\x0B\x11\x12\x13\x14\x15\x17\x18\x24";
    const bool is_pointer = pointers.find(static_cast<char>(number)) != std::string_view::npos;
    mix(is_pointer ? value.bits != 0 : value.bits);
  }
  for (const cublasLtMatrixLayout_t layout : {a, b, c, d}) {
    for (const auto& [number, value] : of(layout).values()) mix(value.bits);
  }
  return hash;
}

/// What the fake keeps in a cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t matmul;
  Alignments alignments;
  std::uint64_t bias_alignment;
  std::uint64_t workspace;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

constexpr std::uint64_t kWorkspace = 256;

std::uint64_t alignment_of(const void* data) {
  const auto bits = reinterpret_cast<std::uintptr_t>(data) | 16U;
  return bits & (~bits + 1);
}

}  // namespace

cublasStatus_t Attributes::set(int attribute, const void* value, std::size_t bytes) {
  const auto found = values_.find(attribute);
  if (found == values_.end() || value == nullptr || bytes != found->second.bytes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  found->second.bits = 0;
  std::memcpy(&found->second.bits, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Attributes::get(int attribute, void* value, std::size_t bytes,
                               std::size_t* written) const {
  const auto found = values_.find(attribute);
  if (found == values_.end()) return CUBLAS_STATUS_INVALID_VALUE;
  const std::size_t size = found->second.bytes;
  if (bytes == 0 ? written == nullptr : value == nullptr || bytes != size) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (bytes != 0) std::memcpy(value, &found->second.bits, size);
  if (written != nullptr) *written = size;
  return CUBLAS_STATUS_SUCCESS;
}

Library& library() {
  static Library instance;
  return instance;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(
      new int{machine().compute_capabilities.at(static_cast<std::size_t>(device))});
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t) { return library().refusal.c_str(); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  Attributes& attributes = create(description, kDescription);
  attributes.set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute, sizeof(compute));
  return attributes.set(CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale, sizeof(scale));
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroy(description);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  return of(description).set(attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, void* value,
                                              std::size_t bytes, std::size_t* written) {
  return of(description).get(attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t stride) {
  Attributes& attributes = create(layout, kLayout);
  attributes.set(CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof(type));
  attributes.set(CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof(rows));
  attributes.set(CUBLASLT_MATRIX_LAYOUT_COLS, &cols, sizeof(cols));
  return attributes.set(CUBLASLT_MATRIX_LAYOUT_LD, &stride, sizeof(stride));
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void* value, std::size_t bytes,
                                                std::size_t* written) {
  return of(layout).get(attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  create(preference, kPreference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  return of(preference).set(attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  return of(preference).get(attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  ++library().lookups;
  *found = 0;
  if (wanted < 1) return refused({CUBLAS_STATUS_INVALID_VALUE, "no algorithm is wanted"});
  const Matmul matmul = matmul_of(handle, description, a, b, c, d);
  const Refusal refusal = check_matmul(matmul);
  if (refusal.status != CUBLAS_STATUS_SUCCESS) return refused(refusal);
  if (library().has_no_algorithm && library().has_no_algorithm(matmul)) {
    return refused({CUBLAS_STATUS_NOT_SUPPORTED, "a test says so"});
  }
  const Attributes& wish = of(preference);
  if (wish.value<std::uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) < kWorkspace) {
    return refused({CUBLAS_STATUS_NOT_SUPPORTED, "too small a workspace"});
  }
  const auto alignment = [&](int attribute) { return wish.value<std::uint32_t>(attribute); };
  const Algorithm algorithm{fingerprint(description, a, b, c, d),
                            {alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
                             alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
                             alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
                             alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)},
                            alignment_of(matmul.bias),
                            kWorkspace};
  results[0] = {};
  results[0].workspaceSize = kWorkspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t) {
  const Matmul matmul = matmul_of(handle, description, a_layout, b_layout, c_layout, d_layout);
  Refusal refusal = check_matmul(matmul);
  if (refusal.status != CUBLAS_STATUS_SUCCESS) return refused(refusal);
  Algorithm algorithm;
  std::memcpy(&algorithm, algo, sizeof(algorithm));
  if (algorithm.matmul != fingerprint(description, a_layout, b_layout, c_layout, d_layout) ||
      alignment_of(matmul.bias) < algorithm.bias_alignment) {
    return refused({CUBLAS_STATUS_INVALID_VALUE, "the algorithm is another matmul's"});
  }
  if (workspace_bytes < algorithm.workspace ||
      reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0 ||
      !is_device_memory(workspace, workspace_bytes)) {
    return refused({CUBLAS_STATUS_INVALID_VALUE, "3: the workspace"});
  }
  const MatmulMemory memory{alpha, beta, a, b, c, d};
  refusal = check_memory(matmul, memory, algorithm.alignments);
  if (refusal.status != CUBLAS_STATUS_SUCCESS) return refused(refusal);
  compute_matmul(matmul, memory);
  if (library().on_matmul) library().on_matmul(matmul);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
