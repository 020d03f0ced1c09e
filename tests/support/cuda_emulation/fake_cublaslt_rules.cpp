// What cuBLASLt's documentation says that it does not take. Each rule gives its number, so that a
// test can tell which one has refused.

#include <algorithm>

#include "cuda_emulation/emulation.hpp"
#include "cuda_emulation/fake_cublaslt.hpp"

namespace cuda_emulation {
namespace {

constexpr std::uint32_t kAuxiliary = 128;  // a bit of the epilogues that have such a matrix
constexpr std::uint32_t kBias = 4;
constexpr std::uint32_t kBiasGradients = 16 | 256 | 512;
constexpr std::uint32_t kGelus = 32 | 64;

Refusal invalid(const char* why) { return {CUBLAS_STATUS_INVALID_VALUE, why}; }
Refusal unsupported(const char* why) { return {CUBLAS_STATUS_NOT_SUPPORTED, why}; }

bool has_blocks_of_128(std::int32_t mode) {
  return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F ||
         mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
}

bool is_16_bit(cudaDataType_t type) { return type == CUDA_R_16BF || type == CUDA_R_16F; }

Refusal check_shapes(const Matmul& x) {
  const std::uint64_t b_k = x.b_operation == CUBLAS_OP_N ? x.b.rows : x.b.cols;
  if (x.k != b_k || x.m != x.d.rows || x.n != x.d.cols || x.c.rows != x.d.rows ||
      x.c.cols != x.d.cols) {
    return invalid("0: the matrices do not fit");
  }
  for (const Matrix& matrix : {x.a, x.b, x.c, x.d}) {
    if (matrix.rows == 0 || matrix.cols == 0 ||
        matrix.stride < static_cast<std::int64_t>(matrix.rows)) {
      return invalid("0: a matrix is empty, or its columns overlap");
    }
  }
  return {};
}

Refusal check_types(const Matmul& x) {
  if (x.a.type == CUDA_R_64F) {
    const bool all = x.b.type == CUDA_R_64F && x.d.type == CUDA_R_64F && x.c.type == CUDA_R_64F &&
                     x.compute == CUBLAS_COMPUTE_64F && x.scale_type == CUDA_R_64F;
    return all ? Refusal{} : unsupported("1: f64 alone");
  }
  if (x.compute != CUBLAS_COMPUTE_32F || x.scale_type != CUDA_R_32F) {
    return unsupported("1: computed in f32");
  }
  if (is_fp8(x.a.type) != is_fp8(x.b.type)) return unsupported("1: FP8 with another kind");
  if (x.a.type == CUDA_R_8F_E5M2 && x.b.type == CUDA_R_8F_E5M2) return unsupported("1: both e5m2");
  if (is_fp8(x.a.type)) return {};
  const bool known = is_fp4(x.a.type) || is_16_bit(x.a.type) || x.a.type == CUDA_R_32F;
  return known && x.a.type == x.b.type ? Refusal{} : unsupported("1: types of a and b");
}

Refusal check_layout(const Matmul& x) {
  const bool tn = x.a_operation == CUBLAS_OP_T && x.b_operation == CUBLAS_OP_N;
  const bool takes_all = is_fp8(x.a.type) && x.compute_capability / 10 == 10;
  return !is_narrow(x.a.type) || tn || takes_all ? Refusal{} : unsupported("2: TN alone");
}

Refusal check_sizes(const Matmul& x) {
  if (x.a.type == CUDA_R_64F) return {};
  const auto whole = [](std::uint64_t size, cudaDataType_t type) {
    return static_cast<std::int64_t>(size) * bits_of(type) % 128 == 0;
  };
  const bool all =
      whole(x.a_operation == CUBLAS_OP_N ? x.m : x.k, x.a.type) &&
      whole(x.b_operation == CUBLAS_OP_N ? x.k : x.n, x.b.type) && whole(x.m, x.c.type) &&
      std::ranges::all_of(std::initializer_list<Matrix>{x.a, x.b, x.c, x.d},
                          [&](const Matrix& matrix) {
                            return whole(static_cast<std::uint64_t>(matrix.stride), matrix.type);
                          });
  return all ? Refusal{} : unsupported("3: sizes in multiples of 16 bytes");
}

Refusal check_result(const Matmul& x) {
  const cudaDataType_t d = x.d.type;
  if (is_narrow(x.c.type)) return unsupported("4: c is narrow");
  if (is_fp8(d)) {
    const bool e5m2_input = x.a.type == CUDA_R_8F_E5M2 || x.b.type == CUDA_R_8F_E5M2;
    if (!is_fp8(x.a.type) || !is_16_bit(x.c.type) || (d == CUDA_R_8F_E5M2 && !e5m2_input)) {
      return unsupported("4: an FP8 d");
    }
    return {};
  }
  if (x.c.type != d) return unsupported("4: c must be as d");
  const bool taken =
      is_narrow(x.a.type) ? is_16_bit(d) || d == CUDA_R_32F : d == x.a.type || d == CUDA_R_32F;
  return taken ? Refusal{} : unsupported("4: type of d");
}

Refusal check_bias(const Matmul& x) {
  if ((x.epilogue & kBias) == 0) return {};
  if (is_fp4(x.a.type)) return unsupported("NVFP4 has no bias: a fault of the library's");
  if (x.bias == nullptr) return invalid("5: no bias");
  cudaDataType_t wanted = x.d.type;
  if (is_fp8(x.d.type)) wanted = x.c.type;
  if (is_fp8(x.a.type) && x.d.type == CUDA_R_32F) wanted = CUDA_R_16BF;
  return x.bias_type == wanted ? Refusal{} : unsupported("5: type of the bias");
}

Refusal check_scaled(const Matmul& x) {
  const auto odd = [](const Matrix& matrix, const void* scale, std::int32_t mode) {
    return !is_narrow(matrix.type) && (scale != nullptr || mode != 0);
  };
  if (odd(x.a, x.a_scale, x.a_mode) || odd(x.b, x.b_scale, x.b_mode) || odd(x.d, x.d_scale, 0)) {
    return invalid("6: a scale of a matrix that is not narrow");
  }
  return x.amax == nullptr || is_fp8(x.d.type) ? Refusal{} : invalid("6: amax of a d not FP8");
}

Refusal check_scale_modes(const Matmul& x) {
  if (!is_narrow(x.a.type)) return {};
  const bool any_pointer_missing = x.a_scale == nullptr || x.b_scale == nullptr;
  switch (x.a_mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F:
      if (x.b_mode != x.a_mode || !is_fp8(x.a.type)) return unsupported("7: scalar for FP8");
      return x.compute_capability >= 89 ? Refusal{} : unsupported("7: scalar needs 8.9");
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0:
      if (x.b_mode != x.a_mode || !is_fp8(x.a.type)) return unsupported("7: VEC32 for FP8");
      if (x.compute_capability < 100) return unsupported("7: VEC32 needs 10.0");
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3:
      if (x.b_mode != x.a_mode || !is_fp4(x.a.type)) return unsupported("7: VEC16 for FP4");
      if (x.compute_capability < 100) return unsupported("7: VEC16 needs 10.0");
      break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
      if (x.b_mode != x.a_mode || !is_fp8(x.a.type)) return unsupported("7: OUTER for FP8");
      if (x.compute_capability != 90) return unsupported("7: OUTER is 9.0's");
      break;
    default:
      if (!has_blocks_of_128(x.a_mode) || !has_blocks_of_128(x.b_mode) || !is_fp8(x.a.type)) {
        return unsupported("7: blocks of 128 for FP8");
      }
      if (x.compute_capability != 90) return unsupported("7: blocks of 128 are 9.0's");
      if (x.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F && x.b_mode == x.a_mode) {
        return unsupported("7: BLK x BLK");
      }
      if (x.m % 4 != 0 || x.n % 4 != 0) return unsupported("7: m and n in multiples of 4");
      break;
  }
  if (any_pointer_missing) return invalid("7: blocks without scales");
  const bool scalar_d = x.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
  return is_fp8(x.d.type) && !scalar_d ? unsupported("7: an FP8 d of vectors of scales")
                                       : Refusal{};
}

Refusal check_epilogue(const Matmul& x) {
  if (has_blocks_of_128(x.a_mode) && x.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
      x.epilogue != CUBLASLT_EPILOGUE_BIAS) {
    return unsupported("10: epilogue of blocks of 128");
  }
  if ((x.epilogue & kBiasGradients) != 0 && is_narrow(x.a.type)) {
    return unsupported("10: gradient of a bias from narrow matrices");
  }
  if ((x.epilogue & kAuxiliary) == 0) return {};
  const std::int64_t multiple = (x.epilogue & kGelus) != 0 ? 8 : 128;
  const bool fits =
      x.auxiliary_stride >= static_cast<std::int64_t>(x.m) && x.auxiliary_stride % multiple == 0;
  return fits ? Refusal{} : invalid("10: leading dimension of the auxiliary matrix");
}

Refusal check_pointer_mode(const Matmul& x) {
  const bool known = x.pointer_mode == CUBLASLT_POINTER_MODE_HOST ||
                     x.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  return known ? Refusal{} : unsupported("0: vectors of alphas");
}

bool is_usable(const void* data, std::uint64_t bytes, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0 && is_device_memory(data, bytes);
}

bool is_usable(const void* data, const Matrix& matrix, std::uint32_t alignment) {
  const auto bits = static_cast<std::uint64_t>(bits_of(matrix.type));
  return is_usable(data, static_cast<std::uint64_t>(matrix.stride) * matrix.cols * bits / 8,
                   alignment);
}

/// Whole tiles, zeros where there are no scales.
Refusal check_scales(const void* scales, const ScaleLayout& layout) {
  if (scales == nullptr) return {};
  const bool one = layout.mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  if (!is_usable(scales, layout.bytes(), one ? sizeof(float) : 16)) {
    return invalid("8: memory of the scales");
  }
  if (!layout.is_tiled()) return {};
  const auto* bytes = static_cast<const std::uint8_t*>(scales);
  for (std::uint64_t line = 0; line < (layout.lines + 127) / 128 * 128; ++line) {
    for (std::uint64_t block = 0; block < (layout.blocks() + 3) / 4 * 4; ++block) {
      const bool there = line < layout.lines && block < layout.blocks();
      if (!there && bytes[layout.place(line, block)] != 0) return invalid("8: zeros after scales");
    }
  }
  return {};
}

}  // namespace

std::int64_t bits_of(cudaDataType_t type) {
  if (is_fp4(type)) return 4;
  if (is_fp8(type)) return 8;
  if (is_16_bit(type)) return 16;
  return type == CUDA_R_64F ? 64 : 32;
}

Matrix::Matrix(const Attributes& layout)
    : type(layout.value<cudaDataType_t>(CUBLASLT_MATRIX_LAYOUT_TYPE)),
      rows(layout.value<std::uint64_t>(CUBLASLT_MATRIX_LAYOUT_ROWS)),
      cols(layout.value<std::uint64_t>(CUBLASLT_MATRIX_LAYOUT_COLS)),
      stride(layout.value<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_LD)) {}

Matmul::Matmul(const Attributes& description, const Attributes& a_layout,
               const Attributes& b_layout, const Attributes& c_layout, const Attributes& d_layout,
               int gpu_capability)
    : compute(description.value<cublasComputeType_t>(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE)),
      scale_type(description.value<cudaDataType_t>(CUBLASLT_MATMUL_DESC_SCALE_TYPE)),
      pointer_mode(description.value<std::int32_t>(CUBLASLT_MATMUL_DESC_POINTER_MODE)),
      a_operation(description.value<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSA)),
      b_operation(description.value<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSB)),
      epilogue(description.value<std::uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE)),
      auxiliary_stride(description.value<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)),
      a_mode(description.value<std::int32_t>(CUBLASLT_MATMUL_DESC_A_SCALE_MODE)),
      b_mode(description.value<std::int32_t>(CUBLASLT_MATMUL_DESC_B_SCALE_MODE)),
      fast_accumulation(description.value<std::int8_t>(CUBLASLT_MATMUL_DESC_FAST_ACCUM) != 0),
      bias(description.value<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER)),
      a_scale(description.value<const void*>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER)),
      b_scale(description.value<const void*>(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER)),
      c_scale(description.value<const void*>(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER)),
      d_scale(description.value<const void*>(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER)),
      amax(description.value<void*>(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER)),
      a(a_layout),
      b(b_layout),
      c(c_layout),
      d(d_layout),
      m(a_operation == CUBLAS_OP_N ? a.rows : a.cols),
      n(b_operation == CUBLAS_OP_N ? b.cols : b.rows),
      k(a_operation == CUBLAS_OP_N ? a.cols : a.rows),
      compute_capability(gpu_capability) {
  const auto said = description.value<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  bias_type = said == -1 ? d.type : static_cast<cudaDataType_t>(said);
}

Refusal check_matmul(const Matmul& matmul) {
  for (const auto rule :
       {check_shapes, check_types, check_pointer_mode, check_layout, check_sizes, check_result,
        check_scaled, check_scale_modes, check_bias, check_epilogue}) {
    const Refusal refusal = rule(matmul);
    if (refusal.status != CUBLAS_STATUS_SUCCESS) return refusal;
  }
  return {};
}

Refusal check_memory(const Matmul& x, const MatmulMemory& memory, const Alignments& alignments) {
  if (!is_usable(memory.a, x.a, alignments.a) || !is_usable(memory.b, x.b, alignments.b) ||
      !is_usable(memory.c, x.c, alignments.c) || !is_usable(memory.d, x.d, alignments.d)) {
    return invalid("3: memory of the matrices");
  }
  const bool device = x.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  for (const void* factor : {memory.alpha, memory.beta}) {
    const auto bytes = static_cast<std::uint64_t>(bits_of(x.scale_type) / 8);
    if (factor == nullptr || is_device_memory(factor, bytes) != device) {
      return invalid("0: alpha and beta in the other's memory");
    }
  }
  if ((x.epilogue & kBias) != 0 &&
      !is_device_memory(x.bias, x.m * static_cast<std::uint64_t>(bits_of(x.bias_type)) / 8)) {
    return invalid("5: memory of the bias");
  }
  for (const void* scalar : {x.c_scale, x.d_scale, static_cast<const void*>(x.amax)}) {
    if (scalar != nullptr && !is_usable(scalar, sizeof(float), sizeof(float))) {
      return invalid("6: memory of a scalar");
    }
  }
  const Refusal refusal = check_scales(x.a_scale, a_scales(x));
  return refusal.status != CUBLAS_STATUS_SUCCESS ? refusal : check_scales(x.b_scale, b_scales(x));
}

}  // namespace cuda_emulation
