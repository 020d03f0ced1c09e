#include <fmt/format.h>

#include "backend/checks.hpp"
#include "backend/cuda/check.hpp"
#include "backend/cuda/gemm_operand.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/gemm_check.hpp"
#include "core/logger.hpp"

namespace tape8::cuda {
namespace {

/// Whether the values are exact in bf16. Float8 block scales may have any mantissa.
bool is_narrow(const GemmOperand& operand) {
  switch (operand.scaling_mode) {
    case ScalingMode::none:
    case ScalingMode::per_tensor:
      return operand.dtype == DType::bf16 || is_fp8(operand.dtype);
    case ScalingMode::float8_block_1d:
    case ScalingMode::float8_block_2d:
      return false;
    case ScalingMode::mxfp8_1d:
    case ScalingMode::nvfp4_1d:
    case ScalingMode::nvfp4_2d:
      return true;
  }
  return false;
}

GemmType type_of(const GemmArgs& args) {
  if (args.a.dtype == DType::f64) return GemmType::f64;
  return is_narrow(args.a) && is_narrow(args.b) ? GemmType::bf16 : GemmType::f32;
}

bool has_type(const GemmOperand& operand, GemmType type) {
  if (operand.scaling_mode != ScalingMode::none) return false;
  switch (type) {
    case GemmType::bf16:
      return operand.dtype == DType::bf16;
    case GemmType::f32:
      return operand.dtype == DType::f32;
    case GemmType::f64:
      return operand.dtype == DType::f64;
  }
  return false;
}

/// An operand as the library takes it: its own memory where that will do, else a decoded copy.
class LibraryOperand {
 public:
  LibraryOperand(Context& context, const GemmOperand& operand, const StoredOperand& stored,
                 GemmType type)
      : data_(operand.data),
        taken_as_is_(has_type(operand, type) && stored.rows % kGemmMultiple == 0 &&
                     stored.cols % kGemmMultiple == 0 &&
                     reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0),
        copy_(context, taken_as_is_
                           ? 0
                           : static_cast<std::size_t>(padded(stored.rows) * padded(stored.cols) *
                                                      bytes_of(type))) {
    if (taken_as_is_) return;
    decode_operand(context, operand, stored, type, copy_.as<void>());
    data_ = copy_.as<void>();
  }

  const void* data() const { return data_; }
  bool taken_as_is() const { return taken_as_is_; }

 private:
  const void* data_;
  bool taken_as_is_;
  Workspace copy_;
};

/// The Hadamard transform fills a last block of k up.
std::int64_t stored_k(const GemmArgs& args) { return args.a.hadamard ? padded(args.k) : args.k; }

StoredOperand stored_a(const GemmArgs& args) {
  const std::int64_t k = stored_k(args);
  return args.a.transposed ? StoredOperand{k, args.m, false} : StoredOperand{args.m, k, true};
}

StoredOperand stored_b(const GemmArgs& args) {
  const std::int64_t k = stored_k(args);
  return args.b.transposed ? StoredOperand{args.n, k, true} : StoredOperand{k, args.n, false};
}

void log_path(const GemmArgs& args, GemmType type, bool a_as_is, bool b_as_is) {
  if (!logger().should_log(spdlog::level::debug)) return;
  const char* name = type == GemmType::bf16 ? "bf16" : type == GemmType::f32 ? "f32" : "f64";
  logger().debug("cuda: gemm: {}x{}x{} {} x {} -> {}: cuBLASLt {}{}{}", args.m, args.n, args.k,
                 to_string(args.a.dtype), to_string(args.b.dtype), to_string(args.d.dtype), name,
                 a_as_is ? "" : "; a decoded or padded", b_as_is ? "" : "; b decoded or padded");
}

}  // namespace

void gemm(Context& context, const GemmArgs& args) {
  check_no_blocks("cuda", "gemm", args.d);
  check_gemm("cuda", args);
  const GemmType type = type_of(args);
  const std::int64_t m = padded(args.m);
  const std::int64_t n = padded(args.n);
  const std::size_t sum_bytes = type == GemmType::f64 ? sizeof(double) : sizeof(float);
  const std::size_t product_bytes = static_cast<std::size_t>(m * n) * sum_bytes;
  const Workspace product(context, product_bytes);
  if (args.m == 0 || args.n == 0 || args.k == 0) {
    check(cudaMemsetAsync(product.as<void>(), 0, product_bytes, context.stream()),
          "cudaMemsetAsync");
  } else {
    const LibraryOperand a(context, args.a, stored_a(args), type);
    const LibraryOperand b(context, args.b, stored_b(args), type);
    log_path(args, type, a.taken_as_is(), b.taken_as_is());
    library_gemm(context, {.type = type,
                           .m = m,
                           .n = n,
                           .k = padded(args.k),
                           .a = a.data(),
                           .b = b.data(),
                           .a_transposed = args.a.transposed,
                           .b_transposed = args.b.transposed,
                           .product = product.as<void>()});
  }
  gemm_epilogue(context, args, type, product.as<void>(), n);
}

}  // namespace tape8::cuda
