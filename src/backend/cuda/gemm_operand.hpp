#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"
#include "backend/cuda/gemm_plan.hpp"

namespace tape8::cuda {

/// Writes an operand's values as [plan.rows, plan.cols] of bf16 or f32, zeros after its rows and
/// columns. Block scales are multiplied in; the tensor's is not.
void decode_operand(Context& context, const GemmOperand& from, const OperandPlan& plan, DType dtype,
                    void* to);

/// alpha = scale_inv_a * scale_inv_b; beta, which comes after it, is 0.
void combine_scales(Context& context, const GemmArgs& args, float* alpha);

/// d = scale_inv_a * scale_inv_b * product + bias, cast as d says. product: [m, stride], f32, or
/// f64 for f64 operands.
void gemm_epilogue(Context& context, const GemmArgs& args, const void* product,
                   std::int64_t stride);

}  // namespace tape8::cuda
