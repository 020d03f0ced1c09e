#include "backend/cpu/gemm_check.hpp"

#include "core/fail.hpp"

namespace tape8::cpu {
namespace {

bool is_operand_type(DType dtype) { return is_compute(dtype) || is_fp8(dtype); }

void check_types(const GemmArgs& args) {
  const DType a = args.a.dtype;
  const DType b = args.b.dtype;
  const DType d = args.d.dtype;
  for (const DType dtype : {a, b}) {
    if (!is_operand_type(dtype) && dtype != DType::e2m1) {
      fail<UnsupportedError>(
          "cpu: gemm: a and b must be f64, f32, bf16, f16, e4m3, e5m2 or e2m1: got {}",
          to_string(dtype));
    }
  }
  if (!is_operand_type(d)) {
    fail<UnsupportedError>("cpu: gemm: d must be f64, f32, bf16, f16, e4m3 or e5m2: got {}",
                           to_string(d));
  }
  const bool any_f64 = a == DType::f64 || b == DType::f64 || d == DType::f64;
  if (any_f64 && (a != b || a != d)) {
    fail<UnsupportedError>("cpu: gemm: a, b and d must all be f64 where one is: got {}, {} and {}",
                           to_string(a), to_string(b), to_string(d));
  }
  if (a == DType::e5m2 && b == DType::e5m2) {
    fail<UnsupportedError>("cpu: gemm: a and b must not both be e5m2: got e5m2 and e5m2");
  }
}

/// `rows` is the size of the axis that is not k.
void check_scaling(const GemmOperand& operand, std::int64_t rows, std::int64_t k) {
  const ScalingMode mode = operand.scaling_mode;
  if (operand.dtype == DType::f64 && operand.scale_inv != nullptr) {
    fail<UnsupportedError>("cpu: gemm: an f64 operand must not have a scale_inv: got one");
  }
  if (operand.dtype == DType::e2m1 && !is_nvfp4(mode)) {
    fail<UnsupportedError>("cpu: gemm: e2m1 operands must be nvfp4_1d or nvfp4_2d: got {}",
                           to_string(mode));
  }
  if (is_nvfp4(mode) && operand.dtype != DType::e2m1) {
    fail<UnsupportedError>("cpu: gemm: {} operands must be e2m1: got {}", to_string(mode),
                           to_string(operand.dtype));
  }
  if (!is_block_scaled(mode)) return;
  if (!is_nvfp4(mode) && !is_fp8(operand.dtype)) {
    fail<UnsupportedError>("cpu: gemm: {} operands must be e4m3 or e5m2: got {}", to_string(mode),
                           to_string(operand.dtype));
  }
  if (operand.block_scale_inv == nullptr && rows > 0 && k > 0) {
    fail<UnsupportedError>("cpu: gemm: {} operands must have a block_scale_inv: got none",
                           to_string(mode));
  }
}

void check_layout(const GemmArgs& args) {
  if (is_nvfp4(args.a.scaling_mode) && args.a.transposed) {
    fail<UnsupportedError>("cpu: gemm: nvfp4 memory must have k last: got a transposed");
  }
  if (is_nvfp4(args.b.scaling_mode) && !args.b.transposed) {
    fail<UnsupportedError>("cpu: gemm: nvfp4 memory must have k last: got b not transposed");
  }
}

void check_hadamard(const GemmArgs& args) {
  if (args.a.hadamard != args.b.hadamard) {
    fail<UnsupportedError>("cpu: gemm: both operands must be transformed, or neither: got {} alone",
                           args.a.hadamard ? 'a' : 'b');
  }
  for (const GemmOperand* operand : {&args.a, &args.b}) {
    if (operand->hadamard && !is_nvfp4(operand->scaling_mode)) {
      fail<UnsupportedError>("cpu: gemm: transformed operands must be nvfp4_1d or nvfp4_2d: got {}",
                             to_string(operand->scaling_mode));
    }
  }
}

}  // namespace

void check_gemm(const GemmArgs& args) {
  check_types(args);
  check_scaling(args.a, args.m, args.k);
  check_scaling(args.b, args.n, args.k);
  check_layout(args);
  check_hadamard(args);
}

}  // namespace tape8::cpu
