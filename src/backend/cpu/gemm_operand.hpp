#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cpu/gemm_kernels.hpp"

namespace tape8::cpu {

/// How a checked operand lies in memory. Its rows are those of a, or the columns of b.
struct OperandLayout {
  const void* data = nullptr;
  DType dtype = DType::f32;
  bool k_contiguous = false;
  std::int64_t stride = 0;  // elements from one row to the next, or from one k to the next
  ScaleSource scales;
};

OperandLayout layout_of_a(const GemmArgs& args);
OperandLayout layout_of_b(const GemmArgs& args);

/// The number of products that make up a sum: k, or what the Hadamard transform made of it.
std::int64_t contracted_size(const GemmArgs& args);

/// Why the operands are not exact in bf16; null if they are.
const char* wider_than_bf16(const GemmArgs& args);

}  // namespace tape8::cpu
