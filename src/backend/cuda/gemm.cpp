#include <mutex>
#include <optional>

#include "backend/checks.hpp"
#include "backend/cuda/check.hpp"
#include "backend/cuda/gemm_arrange.hpp"
#include "backend/cuda/gemm_library.hpp"
#include "backend/cuda/gemm_operand.hpp"
#include "backend/cuda/gemm_plan.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/gemm_check.hpp"
#include "core/fail.hpp"
#include "core/logger.hpp"

namespace tape8::cuda {
namespace {

std::size_t bytes_of(std::int64_t rows, std::int64_t cols, DType dtype) {
  return static_cast<std::size_t>(rows * cols * bits(dtype) / 8);
}

/// An operand as the library takes it: its own memory where that will do, else a copy, which
/// prepare() fills.
class PreparedOperand {
 public:
  PreparedOperand(Context& context, const GemmOperand& operand, const OperandPlan& plan,
                  const LibraryMatrix& matrix)
      : context_(context), operand_(operand), plan_(plan), matrix_(matrix) {
    if (plan.preparation != Preparation::none) {
      copy_.emplace(context, bytes_of(plan.rows, plan.cols, matrix.dtype));
    }
    if (is_block_scaled(matrix.scaling_mode)) {
      scales_.emplace(context, static_cast<std::size_t>(
                                   arranged_scale_bytes(matrix.scaling_mode, across(), k())));
    }
  }

  const void* data() const { return copy_.has_value() ? copy_->as<void>() : operand_.data; }

  const void* scales() const {
    if (scales_.has_value()) return scales_->as<void>();
    return matrix_.scaling_mode == ScalingMode::none ? nullptr : operand_.scale_inv;
  }

  void prepare() const {
    switch (plan_.preparation) {
      case Preparation::none:
        break;
      case Preparation::pad:
        pad_operand(context_, operand_, plan_, copy_->as<void>());
        break;
      case Preparation::transpose:
        transpose_operand(context_, operand_, plan_, copy_->as<void>());
        break;
      case Preparation::decode:
        decode_operand(context_, operand_, plan_, matrix_.dtype, copy_->as<void>());
        break;
    }
    if (scales_.has_value()) {
      arrange_scales(context_, operand_, plan_.stored, across(), k(), scales_->as<void>());
    }
  }

 private:
  bool k_last() const {
    return plan_.stored.k_last != (plan_.preparation == Preparation::transpose);
  }
  std::int64_t across() const { return k_last() ? plan_.rows : plan_.cols; }
  std::int64_t k() const { return k_last() ? plan_.cols : plan_.rows; }

  Context& context_;
  const GemmOperand& operand_;
  const OperandPlan& plan_;
  const LibraryMatrix& matrix_;
  std::optional<Workspace> copy_, scales_;
};

/// Null when it is done, or the library's word for why it cannot be.
const char* run(Context& context, const GemmArgs& args, const GemmPlan& plan) {
  const LibraryProblem& problem = plan.problem;
  const PreparedOperand a(context, args.a, plan.a, problem.a);
  const PreparedOperand b(context, args.b, plan.b, problem.b);
  std::optional<Workspace> product, alpha;
  if (plan.why_product != nullptr) {
    product.emplace(context, bytes_of(problem.m, problem.n, problem.d));
  }
  if (problem.device_alpha) alpha.emplace(context, 2 * sizeof(float));
  const LibraryGemm library(context, problem,
                            {.a = a.data(),
                             .b = b.data(),
                             .a_scales = a.scales(),
                             .b_scales = b.scales(),
                             .bias = args.bias,
                             .alpha = alpha.has_value() ? alpha->as<float>() : nullptr,
                             .d = product.has_value() ? product->as<void>() : args.d.data});
  if (library.why_none() != nullptr) return library.why_none();
  if (logger().should_log(spdlog::level::debug)) {
    logger().debug("cuda: gemm: {}x{}x{} {} x {} -> {}: cuBLASLt {}", args.m, args.n, args.k,
                   to_string(args.a.dtype), to_string(args.b.dtype), to_string(args.d.dtype),
                   describe(plan));
  }
  a.prepare();
  b.prepare();
  if (alpha.has_value()) combine_scales(context, args, alpha->as<float>());
  library.run();
  if (product.has_value()) gemm_epilogue(context, args, product->as<void>(), problem.n);
  return nullptr;
}

/// d = bias: nothing is summed.
void run_empty(Context& context, const GemmArgs& args) {
  const std::size_t bytes =
      bytes_of(args.m, args.n, args.d.dtype == DType::f64 ? DType::f64 : DType::f32);
  const Workspace zeros(context, bytes);
  check(cudaMemsetAsync(zeros.as<void>(), 0, bytes, context.stream()), "cudaMemsetAsync");
  gemm_epilogue(context, args, zeros.as<void>(), args.n);
}

void warn_once(const LibraryProblem& problem, const char* why) {
  static std::once_flag flag;
  std::call_once(flag, [&] {
    logger().warn(
        "cuda: gemm: cuBLASLt has no algorithm for {} ({}): it is decoded, as will be "
        "others without",
        describe(problem), why);
  });
}

}  // namespace

void gemm(Context& context, const GemmArgs& args) {
  check_no_blocks("cuda", "gemm", args.d);
  check_gemm("cuda", args);
  if (args.m == 0 || args.n == 0 || args.k == 0) return run_empty(context, args);
  GemmPlan plan = plan_gemm(args, context.compute_capability());
  const char* why = run(context, args, plan);
  if (why == nullptr) return;
  if (plan.native) {
    warn_once(plan.problem, why);
    plan = plan_decoded_gemm(args, "cuBLASLt has no algorithm");
    why = run(context, args, plan);
  }
  if (why != nullptr) {
    fail<BackendError>("cuda: gemm: cuBLASLt has no algorithm for {}: {}", describe(plan.problem),
                       why);
  }
}

}  // namespace tape8::cuda
