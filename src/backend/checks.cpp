#include "backend/checks.hpp"

#include "core/fail.hpp"

namespace tape8 {
namespace {

void check_type(std::string_view backend, std::string_view op, bool f64, DType dtype) {
  const bool known = is_compute(dtype) || is_fp8(dtype);
  if (known && (dtype != DType::f64 || f64)) return;
  fail<UnsupportedError>(
      "{}: {}: takes f32, bf16, f16, e4m3 and e5m2, or f64 with an f64 x: got {}", backend, op,
      to_string(dtype));
}

[[noreturn]] void refuse_blocks(std::string_view backend, std::string_view op, ScalingMode mode) {
  fail<UnsupportedError>("{}: {}: takes no block scales here: got {}", backend, op,
                         to_string(mode));
}

void check_blocks(std::string_view backend, std::string_view op, bool supported, bool f64,
                  ScalingMode mode, DType dtype, bool hadamard) {
  if (!supported) refuse_blocks(backend, op, mode);
  if (f64) fail<UnsupportedError>("{}: {}: takes no block scales with f64", backend, op);
  const bool fits = is_nvfp4(mode) ? dtype == DType::e2m1 : is_fp8(dtype);
  if (!is_block_scaled(mode) || !fits) {
    fail<UnsupportedError>("{}: {}: block scales go with FP8, those of nvfp4 with e2m1: got {} {}",
                           backend, op, to_string(mode), to_string(dtype));
  }
  if (hadamard && mode != ScalingMode::nvfp4_1d) {
    fail<UnsupportedError>("{}: {}: the Hadamard transform goes with nvfp4_1d: got {}", backend, op,
                           to_string(mode));
  }
}

}  // namespace

void check_operands(std::string_view backend, std::string_view op, bool f64,
                    std::initializer_list<Input> inputs, std::initializer_list<Output> outputs,
                    BlockSupport block_support) {
  for (const Input& input : inputs) {
    if (input.blocks == nullptr) {
      check_type(backend, op, f64, input.dtype);
    } else {
      check_blocks(backend, op, block_support == BlockSupport::inputs_and_outputs, f64,
                   input.blocks->scaling_mode, input.dtype, input.blocks->hadamard);
    }
  }
  for (const Output& output : outputs) {
    if (output.blocks != nullptr) {
      check_blocks(backend, op, block_support != BlockSupport::none, f64,
                   output.blocks->scaling_mode, output.blocks->dtype, output.blocks->hadamard);
    } else if (output.data != nullptr) {
      check_type(backend, op, f64, output.dtype);
    }
  }
}

void check_no_blocks(std::string_view backend, std::string_view op, const Output& output) {
  if (output.blocks != nullptr) refuse_blocks(backend, op, output.blocks->scaling_mode);
}

}  // namespace tape8
