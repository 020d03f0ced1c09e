#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"
#include "backend/cuda/gemm_plan.hpp"

namespace tape8::cuda {

/// Copies an operand as it is to [plan.rows, plan.cols], zeros after its rows and columns.
void pad_operand(Context& context, const GemmOperand& from, const OperandPlan& plan, void* to);
/// The same of its transpose; for types of a byte.
void transpose_operand(Context& context, const GemmOperand& from, const OperandPlan& plan,
                       void* to);

/// Copies block scales as cuBLASLt has them lie for their mode, zeros where there are none.
/// `across` (m for a, n for b) and k are the library's sizes.
void arrange_scales(Context& context, const GemmOperand& from, const StoredOperand& stored,
                    std::int64_t across, std::int64_t k, void* to);
std::int64_t arranged_scale_bytes(ScalingMode mode, std::int64_t across, std::int64_t k);

}  // namespace tape8::cuda
