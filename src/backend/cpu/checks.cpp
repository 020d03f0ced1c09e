#include "backend/cpu/checks.hpp"

#include "core/fail.hpp"

namespace tape8::cpu {
namespace {

void check_type(std::string_view op, bool f64, DType dtype) {
  const bool known = is_compute(dtype) || is_fp8(dtype);
  if (known && (dtype != DType::f64 || f64)) return;
  fail<UnsupportedError>(
      "cpu: {}: takes f32, bf16, f16, e4m3 and e5m2, or f64 with an f64 x: got {}", op,
      to_string(dtype));
}

[[noreturn]] void refuse_blocks(std::string_view op, ScalingMode mode) {
  fail<UnsupportedError>("cpu: {}: takes no block scales here: got {}", op, to_string(mode));
}

void check_blocks(std::string_view op, bool supported, bool f64, ScalingMode mode, DType dtype,
                  bool hadamard) {
  if (!supported) refuse_blocks(op, mode);
  if (f64) fail<UnsupportedError>("cpu: {}: takes no block scales with f64", op);
  const bool fits = is_nvfp4(mode) ? dtype == DType::e2m1 : is_fp8(dtype);
  if (!is_block_scaled(mode) || !fits) {
    fail<UnsupportedError>("cpu: {}: block scales go with FP8, those of nvfp4 with e2m1: got {} {}",
                           op, to_string(mode), to_string(dtype));
  }
  if (hadamard && mode != ScalingMode::nvfp4_1d) {
    fail<UnsupportedError>("cpu: {}: the Hadamard transform goes with nvfp4_1d: got {}", op,
                           to_string(mode));
  }
}

}  // namespace

void check_operands(std::string_view op, bool f64, std::initializer_list<Input> inputs,
                    std::initializer_list<Output> outputs, BlockSupport block_support) {
  for (const Input& input : inputs) {
    if (input.blocks == nullptr) {
      check_type(op, f64, input.dtype);
    } else {
      check_blocks(op, block_support == BlockSupport::inputs_and_outputs, f64,
                   input.blocks->scaling_mode, input.dtype, input.blocks->hadamard);
    }
  }
  for (const Output& output : outputs) {
    if (output.blocks != nullptr) {
      check_blocks(op, block_support != BlockSupport::none, f64, output.blocks->scaling_mode,
                   output.blocks->dtype, output.blocks->hadamard);
    } else if (output.data != nullptr) {
      check_type(op, f64, output.dtype);
    }
  }
}

void check_no_blocks(std::string_view op, const Output& output) {
  if (output.blocks != nullptr) refuse_blocks(op, output.blocks->scaling_mode);
}

}  // namespace tape8::cpu
