#include "backend/gemm_check.hpp"

#include "core/fail.hpp"

namespace tape8 {
namespace {

bool is_operand_type(DType dtype) { return is_compute(dtype) || is_fp8(dtype); }

void check_types(std::string_view backend, const GemmArgs& args) {
  const DType a = args.a.dtype;
  const DType b = args.b.dtype;
  const DType d = args.d.dtype;
  for (const DType dtype : {a, b}) {
    if (!is_operand_type(dtype) && dtype != DType::e2m1) {
      fail<UnsupportedError>(
          "{}: gemm: a and b must be f64, f32, bf16, f16, e4m3, e5m2 or e2m1: got {}", backend,
          to_string(dtype));
    }
  }
  if (!is_operand_type(d)) {
    fail<UnsupportedError>("{}: gemm: d must be f64, f32, bf16, f16, e4m3 or e5m2: got {}", backend,
                           to_string(d));
  }
  const bool any_f64 = a == DType::f64 || b == DType::f64 || d == DType::f64;
  if (any_f64 && (a != b || a != d)) {
    fail<UnsupportedError>("{}: gemm: a, b and d must all be f64 where one is: got {}, {} and {}",
                           backend, to_string(a), to_string(b), to_string(d));
  }
  if (a == DType::e5m2 && b == DType::e5m2) {
    fail<UnsupportedError>("{}: gemm: a and b must not both be e5m2: got e5m2 and e5m2", backend);
  }
}

/// `rows` is the size of the axis that is not k.
void check_scaling(std::string_view backend, const GemmOperand& operand, std::int64_t rows,
                   std::int64_t k) {
  const ScalingMode mode = operand.scaling_mode;
  if (operand.dtype == DType::f64 && operand.scale_inv != nullptr) {
    fail<UnsupportedError>("{}: gemm: an f64 operand must not have a scale_inv: got one", backend);
  }
  if (operand.dtype == DType::e2m1 && !is_nvfp4(mode)) {
    fail<UnsupportedError>("{}: gemm: e2m1 operands must be nvfp4_1d or nvfp4_2d: got {}", backend,
                           to_string(mode));
  }
  if (is_nvfp4(mode) && operand.dtype != DType::e2m1) {
    fail<UnsupportedError>("{}: gemm: {} operands must be e2m1: got {}", backend, to_string(mode),
                           to_string(operand.dtype));
  }
  if (!is_block_scaled(mode)) return;
  if (!is_nvfp4(mode) && !is_fp8(operand.dtype)) {
    fail<UnsupportedError>("{}: gemm: {} operands must be e4m3 or e5m2: got {}", backend,
                           to_string(mode), to_string(operand.dtype));
  }
  if (operand.block_scale_inv == nullptr && rows > 0 && k > 0) {
    fail<UnsupportedError>("{}: gemm: {} operands must have a block_scale_inv: got none", backend,
                           to_string(mode));
  }
}

void check_layout(std::string_view backend, const GemmArgs& args) {
  if (is_nvfp4(args.a.scaling_mode) && args.a.transposed) {
    fail<UnsupportedError>("{}: gemm: nvfp4 memory must have k last: got a transposed", backend);
  }
  if (is_nvfp4(args.b.scaling_mode) && !args.b.transposed) {
    fail<UnsupportedError>("{}: gemm: nvfp4 memory must have k last: got b not transposed",
                           backend);
  }
}

void check_hadamard(std::string_view backend, const GemmArgs& args) {
  if (args.a.hadamard != args.b.hadamard) {
    fail<UnsupportedError>("{}: gemm: both operands must be transformed, or neither: got {} alone",
                           backend, args.a.hadamard ? 'a' : 'b');
  }
  for (const GemmOperand* operand : {&args.a, &args.b}) {
    if (operand->hadamard && !is_nvfp4(operand->scaling_mode)) {
      fail<UnsupportedError>("{}: gemm: transformed operands must be nvfp4_1d or nvfp4_2d: got {}",
                             backend, to_string(operand->scaling_mode));
    }
  }
}

}  // namespace

void check_gemm(std::string_view backend, const GemmArgs& args) {
  check_types(backend, args);
  check_scaling(backend, args.a, args.m, args.k);
  check_scaling(backend, args.b, args.n, args.k);
  check_layout(backend, args);
  check_hadamard(backend, args);
}

}  // namespace tape8
