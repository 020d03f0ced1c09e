#include "backend/cpu/gemm_operand.hpp"

#include <bit>

#include "backend/cpu/parallel.hpp"

namespace tape8::cpu {
namespace {

std::int64_t padded_k(ScalingMode mode, std::int64_t k) {
  constexpr std::int64_t kMultiple = 16;
  return is_nvfp4(mode) ? divide_up(k, kMultiple) * kMultiple : k;
}

OperandLayout layout_of(const GemmOperand& operand, bool k_contiguous, std::int64_t rows,
                        std::int64_t k) {
  const ScalingMode mode = operand.scaling_mode;
  OperandLayout layout{.data = operand.data,
                       .dtype = operand.dtype,
                       .k_contiguous = k_contiguous,
                       .stride = k_contiguous ? padded_k(mode, k) : rows};
  if (!is_block_scaled(mode)) return layout;
  const ScalingBlock block = scaling_block(mode);
  layout.scales = {
      .mode = mode,
      .data = operand.block_scale_inv,
      .stride_k = k_contiguous ? 1 : divide_up(rows, block.across),
      .stride_rows = k_contiguous ? divide_up(k, block.along) : 1,
      .across_bits = std::countr_zero(static_cast<std::uint64_t>(block.across)),
  };
  return layout;
}

bool is_power_of_two(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = bits >> 23;
  const std::uint32_t mantissa = bits & 0x7FFFFFU;
  return exponent == 0 ? std::has_single_bit(mantissa) : exponent < 255 && mantissa == 0;
}

/// False if a float8_block scale is no power of two.
bool keeps_mantissas(const GemmOperand& operand, std::int64_t rows, std::int64_t k) {
  const ScalingMode mode = operand.scaling_mode;
  if (mode != ScalingMode::float8_block_1d && mode != ScalingMode::float8_block_2d) return true;
  const ScalingBlock block = scaling_block(mode);
  const std::int64_t count = divide_up(rows, block.across) * divide_up(k, block.along);
  const auto* scales = static_cast<const float*>(operand.block_scale_inv);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!is_power_of_two(scales[i])) return false;
  }
  return true;
}

bool is_narrow(DType dtype) {
  return dtype == DType::bf16 || is_fp8(dtype) || dtype == DType::e2m1;
}

}  // namespace

OperandLayout layout_of_a(const GemmArgs& args) {
  return layout_of(args.a, !args.a.transposed, args.m, args.k);
}

OperandLayout layout_of_b(const GemmArgs& args) {
  return layout_of(args.b, args.b.transposed, args.n, args.k);
}

std::int64_t contracted_size(const GemmArgs& args) {
  return args.a.hadamard ? padded_k(args.a.scaling_mode, args.k) : args.k;
}

const char* wider_than_bf16(const GemmArgs& args) {
  if (!is_narrow(args.a.dtype) || !is_narrow(args.b.dtype)) return "an operand is wider than bf16";
  if (!keeps_mantissas(args.a, args.m, args.k) || !keeps_mantissas(args.b, args.n, args.k)) {
    return "a block scale is no power of two";
  }
  return nullptr;
}

}  // namespace tape8::cpu
