#pragma once

#include <cstdint>
#include <library_types.h>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"

namespace tape8::cuda {

/// What a matmul is computed in.
enum class GemmType { bf16, f32, f64 };

constexpr cudaDataType_t library_type(GemmType type) {
  switch (type) {
    case GemmType::bf16:
      return CUDA_R_16BF;
    case GemmType::f32:
      return CUDA_R_32F;
    case GemmType::f64:
      return CUDA_R_64F;
  }
  return CUDA_R_32F;
}

constexpr std::int64_t bytes_of(GemmType type) {
  return type == GemmType::bf16 ? 2 : type == GemmType::f32 ? 4 : 8;
}

/// Sizes of operands that the library takes at its best: bytes in multiples of 16.
inline constexpr std::int64_t kGemmMultiple = 16;

constexpr std::int64_t padded(std::int64_t size) {
  return (size + kGemmMultiple - 1) / kGemmMultiple * kGemmMultiple;
}

/// An operand's memory, row-major: k is the last axis of it, or the first.
struct StoredOperand {
  std::int64_t rows = 0, cols = 0;
  bool k_last = false;
};

/// Writes operand `from`, decoded, as [padded(rows), padded(cols)] of a type, zeros where it has
/// nothing. Block scales are multiplied in; the tensor's is not.
void decode_operand(Context& context, const GemmOperand& from, const StoredOperand& stored,
                    GemmType type, void* to);

/// d = scale_inv_a * scale_inv_b * product + bias, cast as d says. product: [m, stride], f32, or
/// f64 for f64 operands.
void gemm_epilogue(Context& context, const GemmArgs& args, GemmType type, const void* product,
                   std::int64_t stride);

/// What the library needs to know of product = a * b, all row-major in multiples of 16.
struct LibraryGemm {
  GemmType type = GemmType::bf16;
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;  // [m, k], or [k, m] if transposed
  const void* b = nullptr;  // [k, n], or [n, k] if transposed
  bool a_transposed = false, b_transposed = false;
  void* product = nullptr;  // [m, n], f32, or f64 for f64
};

/// Throws BackendError with the call and the library's text for what went wrong.
void library_gemm(Context& context, const LibraryGemm& gemm);

}  // namespace tape8::cuda
