// d = sD * (alpha * sA * sB * op(a) op(b) + beta * sC * c + bias), summed over ascending k.

#include <algorithm>
#include <cmath>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cuda_emulation/emulation.hpp"
#include "cuda_emulation/fake_cublaslt.hpp"

namespace cuda_emulation {
namespace {

float decode_fp8(std::uint8_t code, __nv_fp8_interpretation_t format) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, format)));
}

float decode_fp4(std::uint8_t code) {
  constexpr float kMagnitudes[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  return (code & 8U) != 0 ? -kMagnitudes[code & 7U] : kMagnitudes[code & 7U];
}

template <class T>
T element(const void* data, std::uint64_t index) {
  return static_cast<const T*>(data)[index];
}

template <class Real>
Real load(const void* data, cudaDataType_t type, std::uint64_t index) {
  switch (type) {
    case CUDA_R_4F_E2M1: {
      const unsigned pair = element<std::uint8_t>(data, index / 2);
      return decode_fp4(static_cast<std::uint8_t>(index % 2 == 0 ? pair & 0xFU : pair >> 4U));
    }
    case CUDA_R_8F_E4M3:
      return decode_fp8(element<std::uint8_t>(data, index), __NV_E4M3);
    case CUDA_R_8F_E5M2:
      return decode_fp8(element<std::uint8_t>(data, index), __NV_E5M2);
    case CUDA_R_16BF:
      return __bfloat162float(element<__nv_bfloat16>(data, index));
    case CUDA_R_16F:
      return __half2float(element<__half>(data, index));
    case CUDA_R_32F:
      return element<float>(data, index);
    default:
      return static_cast<Real>(element<double>(data, index));
  }
}

template <class Real>
void store(void* data, cudaDataType_t type, std::uint64_t index, Real value) {
  switch (type) {
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      static_cast<std::uint8_t*>(data)[index] =
          __nv_cvt_float_to_fp8(static_cast<float>(value), __NV_SATFINITE,
                                type == CUDA_R_8F_E4M3 ? __NV_E4M3 : __NV_E5M2);
      break;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(static_cast<float>(value));
      break;
    case CUDA_R_16F:
      static_cast<__half*>(data)[index] = __float2half_rn(static_cast<float>(value));
      break;
    case CUDA_R_32F:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      break;
    default:
      static_cast<double*>(data)[index] = static_cast<double>(value);
  }
}

/// Lines of k values: op(a)'s rows, op(b)'s columns.
template <class Real>
std::vector<Real> lines_of(const void* data, const Matrix& matrix, bool k_down) {
  std::vector<Real> values(matrix.rows * matrix.cols);
  for (std::uint64_t col = 0; col < matrix.cols; ++col) {
    for (std::uint64_t row = 0; row < matrix.rows; ++row) {
      const std::uint64_t at = k_down ? col * matrix.rows + row : row * matrix.cols + col;
      values[at] =
          load<Real>(data, matrix.type, col * static_cast<std::uint64_t>(matrix.stride) + row);
    }
  }
  return values;
}

/// The scale of a block; 1 where the tensor has one.
float block_scale(const void* scales, const ScaleLayout& layout, std::uint64_t line,
                  std::uint64_t block) {
  switch (layout.mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F:
      return 1.0F;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0: {
      const auto code = element<std::uint8_t>(scales, layout.place(line, block));
      return code == 255 ? NAN : std::ldexp(1.0F, code - 127);
    }
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3:
      // The sign is ignored.
      return std::fabs(
          decode_fp8(element<std::uint8_t>(scales, layout.place(line, block)), __NV_E4M3));
    default:
      return element<float>(scales, layout.place(line, block));
  }
}

float scalar(const void* scale) { return scale == nullptr ? 1.0F : element<float>(scale, 0); }

float tensor_scale(const void* scale, const ScaleLayout& layout) {
  return layout.mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F ? scalar(scale) : 1.0F;
}

template <class Real>
void compute(const Matmul& x, const MatmulMemory& memory) {
  const std::vector<Real> left = lines_of<Real>(memory.a, x.a, x.a_operation == CUBLAS_OP_T);
  const std::vector<Real> right = lines_of<Real>(memory.b, x.b, x.b_operation == CUBLAS_OP_N);
  const ScaleLayout a_layout = a_scales(x), b_layout = b_scales(x);
  const auto alpha = load<Real>(memory.alpha, x.scale_type, 0);
  const auto beta = load<Real>(memory.beta, x.scale_type, 0);
  const Real factor = alpha * static_cast<Real>(tensor_scale(x.a_scale, a_layout) *
                                                tensor_scale(x.b_scale, b_layout));
  const std::uint64_t block = a_layout.block() == 0 ? x.k : a_layout.block();
  Real amax = 0;
  for (std::uint64_t col = 0; col < x.n; ++col) {
    for (std::uint64_t row = 0; row < x.m; ++row) {
      Real sum = 0;
      for (std::uint64_t first = 0; first < x.k; first += block) {
        Real part = 0;
        for (std::uint64_t k = first; k < std::min(first + block, x.k); ++k) {
          part += left[row * x.k + k] * right[col * x.k + k];
        }
        sum += static_cast<Real>(block_scale(x.a_scale, a_layout, row, first / block) *
                                 block_scale(x.b_scale, b_layout, col, first / block)) *
               part;
      }
      const auto place = [&](const Matrix& matrix) {
        return col * static_cast<std::uint64_t>(matrix.stride) + row;
      };
      Real value = factor * sum;
      if (beta != 0) {
        value += beta * static_cast<Real>(scalar(x.c_scale)) *
                 load<Real>(memory.c, x.c.type, place(x.c));
      }
      if (x.epilogue == CUBLASLT_EPILOGUE_BIAS) value += load<Real>(x.bias, x.bias_type, row);
      amax = std::max(amax, std::abs(value));
      store<Real>(memory.d, x.d.type, place(x.d), value * static_cast<Real>(scalar(x.d_scale)));
    }
  }
  if (x.amax != nullptr) *static_cast<float*>(x.amax) = static_cast<float>(amax);
}

}  // namespace

std::uint64_t ScaleLayout::block() const {
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3:
      return 16;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0:
      return 32;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      return 128;
    default:
      return 0;
  }
}

std::uint64_t ScaleLayout::blocks() const { return block() == 0 ? 1 : (k + block() - 1) / block(); }

bool ScaleLayout::is_tiled() const { return block() == 16 || block() == 32; }

std::uint64_t ScaleLayout::elements() const {
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F:
      return 1;
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      return (blocks() + 3) / 4 * 4 * ((lines + 127) / 128);
    default:
      return is_tiled() ? (blocks() + 3) / 4 * 4 * ((lines + 127) / 128 * 128) : blocks() * lines;
  }
}

std::uint64_t ScaleLayout::bytes() const {
  return is_tiled() ? elements() : elements() * sizeof(float);
}

std::uint64_t ScaleLayout::place(std::uint64_t line, std::uint64_t block_index) const {
  if (is_tiled()) {
    const std::uint64_t tile = line / 128 * ((blocks() + 3) / 4) + block_index / 4;
    const std::uint64_t outer = line % 128;
    return tile * 512 + outer % 32 * 16 + outer / 32 * 4 + block_index % 4;
  }
  if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F) {
    return line / 128 * ((blocks() + 3) / 4 * 4) + block_index;
  }
  return block_index * lines + line;
}

ScaleLayout a_scales(const Matmul& matmul) { return {matmul.a_mode, matmul.m, matmul.k}; }
ScaleLayout b_scales(const Matmul& matmul) { return {matmul.b_mode, matmul.n, matmul.k}; }

void compute_matmul(const Matmul& matmul, const MatmulMemory& memory) {
  if (matmul.epilogue != CUBLASLT_EPILOGUE_DEFAULT && matmul.epilogue != CUBLASLT_EPILOGUE_BIAS) {
    throw Error("cublasLtMatmul: the emulation does not compute this epilogue");
  }
  if (matmul.compute == CUBLAS_COMPUTE_64F) return compute<double>(matmul, memory);
  compute<float>(matmul, memory);
}

}  // namespace cuda_emulation
