#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/tensor.hpp>

#include "cuda_emulation/emulation.hpp"
#include "cuda_emulation/fake_cublaslt.hpp"

namespace tape8::test {

// GPUs of the emulated machine, by what they are.
inline constexpr int kHopper = 0, kAmpere = 1, kAda = 2, kBlackwell = 3, kGeforce = 4;

inline constexpr auto kVec16 = CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
inline constexpr auto kVec32 = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
inline constexpr auto kOuter = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
inline constexpr auto kVec128 = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
inline constexpr auto kBlk128 = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
inline constexpr auto kScalar = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;

/// A matmul of FP8 on Hopper, unless something else is said.
struct Case {
  int gpu = kHopper;
  cudaDataType_t a = CUDA_R_8F_E4M3, b = CUDA_R_8F_E4M3, c = CUDA_R_16BF, d = CUDA_R_16BF;
  cublasLtMatmulMatrixScale_t a_mode = kScalar, b_mode = kScalar;
  cublasOperation_t a_operation = CUBLAS_OP_T, b_operation = CUBLAS_OP_N;
  std::int64_t m = 64, n = 48, k = 128;
  std::int64_t d_stride = 0;  // 0: m
  std::int64_t b_k = 0;       // 0: k
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale_type = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t bias_type = -1;
  std::int64_t auxiliary_stride = 0;
  cublasLtPointerMode_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  bool has_bias = true;  // where the epilogue wants one
  bool a_scale = true, b_scale = true, d_scale = false, amax = false;
  // Of memory, where the matmul is run.
  bool alpha_elsewhere = false;
  float alpha = 1.0F, beta = 0.0F;
  std::uint8_t a_byte = 0, b_byte = 0, c_byte = 0;  // of which the matrices consist
  std::int64_t a_offset = 0, scale_offset = 0, workspace_offset = 0;
  std::int64_t bias_bytes = 4096, scale_bytes = 16384;
  std::uint8_t scale_byte = 0;
  float scale = 0.0F;  // in the bytes' place, where it is not 0
};

inline void require(cublasStatus_t status) { REQUIRE(status == CUBLAS_STATUS_SUCCESS); }

/// A case described to the library.
class Described {
 public:
  explicit Described(const Case& matmul) : case_(matmul) {
    REQUIRE(cudaSetDevice(matmul.gpu) == cudaSuccess);
    static auto& handles = *new std::map<int, cublasLtHandle_t>;  // for the program's time
    if (!handles.contains(matmul.gpu)) require(cublasLtCreate(&handles[matmul.gpu]));
    handle_ = handles[matmul.gpu];
    require(cublasLtMatmulDescCreate(&description_, matmul.compute, matmul.scale_type));
    set(CUBLASLT_MATMUL_DESC_TRANSA, matmul.a_operation);
    set(CUBLASLT_MATMUL_DESC_TRANSB, matmul.b_operation);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, matmul.a_mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, matmul.b_mode);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, matmul.epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, matmul.bias_type);
    if (matmul.has_bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_.data());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, matmul.auxiliary_stride);
    const void* scales = bytes(scales_) + matmul.scale_offset;
    if (matmul.a_scale) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales);
    if (matmul.b_scale) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales);
    if (matmul.d_scale) set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, scales);
    if (matmul.amax) set(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, scales);
    set(CUBLASLT_MATMUL_DESC_POINTER_MODE, matmul.pointer_mode);
    a_ = layout(matmul.a, matmul.m, matmul.k, matmul.a_operation);
    b_ = layout(matmul.b, matmul.b_k == 0 ? matmul.k : matmul.b_k, matmul.n, matmul.b_operation);
    c_ = layout(matmul.c, matmul.m, matmul.n, CUBLAS_OP_N, matmul.d_stride);
    d_ = layout(matmul.d, matmul.m, matmul.n, CUBLAS_OP_N, matmul.d_stride);
  }

  ~Described() {
    cublasLtMatmulDescDestroy(description_);
    for (const cublasLtMatrixLayout_t layout : {a_, b_, c_, d_}) {
      cublasLtMatrixLayoutDestroy(layout);
    }
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;

  /// What refuses it, or an empty text.
  std::string look_up() {
    cuda_emulation::library().refusal.clear();
    cublasLtMatmulPreference_t preference = nullptr;
    require(cublasLtMatmulPreferenceCreate(&preference));
    const std::uint64_t workspace = 4096;
    require(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)));
    const std::uint32_t alignment = 16;
    require(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof(alignment)));
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, description_, a_, b_, c_, d_, preference, 1, &result_, &found);
    require(cublasLtMatmulPreferenceDestroy(preference));
    CHECK((status == CUBLAS_STATUS_SUCCESS) == (found == 1));
    CHECK((status == CUBLAS_STATUS_SUCCESS) == cuda_emulation::library().refusal.empty());
    return cuda_emulation::library().refusal;
  }

  std::string run() {
    const std::string refusal = look_up();
    if (!refusal.empty()) return refusal;
    const Tensor factors = Tensor::from({case_.alpha, case_.beta}, {2});
    const Tensor on_gpu = factors.to(gpu());
    const bool device = case_.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
    const Tensor& given = device != case_.alpha_elsewhere ? on_gpu : factors;
    const auto* alpha = static_cast<const float*>(given.data());
    cublasLtMatmul(handle_, description_, alpha, bytes(a_memory_) + case_.a_offset, a_,
                   b_memory_.data(), b_, alpha + 1, c_memory_.data(), c_, d_memory_.mutable_data(),
                   d_, &result_.algo, mutable_bytes(workspace_) + case_.workspace_offset,
                   result_.workspaceSize, nullptr);
    return cuda_emulation::library().refusal;
  }

  /// As it lies.
  std::vector<std::uint8_t> d() const { return d_memory_.to(Device{}).to_vector<std::uint8_t>(); }
  float first_scale() const { return scales_.to(Device{}).to_vector<float>()[0]; }

 private:
  Device gpu() const { return {DeviceType::cuda, case_.gpu}; }
  static const std::uint8_t* bytes(const Tensor& tensor) {
    return static_cast<const std::uint8_t*>(tensor.data());
  }
  static std::uint8_t* mutable_bytes(Tensor& tensor) {
    return static_cast<std::uint8_t*>(tensor.mutable_data());
  }
  Tensor memory(std::int64_t size, std::uint8_t value = 0) const {
    return Tensor::from(std::vector<std::uint8_t>(static_cast<std::size_t>(size), value), {size})
        .to(gpu());
  }

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    require(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof(value)));
  }

  static cublasLtMatrixLayout_t layout(cudaDataType_t type, std::int64_t rows, std::int64_t cols,
                                       cublasOperation_t operation, std::int64_t stride = 0) {
    if (operation == CUBLAS_OP_T) std::swap(rows, cols);
    cublasLtMatrixLayout_t made = nullptr;
    require(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(cols),
                                       stride == 0 ? rows : stride));
    return made;
  }

  Case case_;
  Tensor a_memory_ = memory(65536, case_.a_byte), b_memory_ = memory(65536, case_.b_byte);
  Tensor c_memory_ = memory(65536, case_.c_byte), d_memory_ = memory(65536);
  Tensor workspace_ = memory(8192), bias_ = memory(case_.bias_bytes);
  Tensor scales_ = case_.scale != 0.0F ? Tensor::full({64}, case_.scale, DType::f32, gpu())
                                       : memory(case_.scale_bytes, case_.scale_byte);
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr, d_ = nullptr;
  cublasLtMatmulHeuristicResult_t result_{};
};

/// What the library says to a case when it is asked for an algorithm.
inline std::string refusal(const Case& matmul) { return Described(matmul).look_up(); }
/// And when it is run.
inline std::string run_refusal(const Case& matmul) { return Described(matmul).run(); }

}  // namespace tape8::test
