#include "backend/cuda/gemm_plan.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tape8::cuda {
namespace {

constexpr int kAda = 89;
constexpr int kHopper = 90;
constexpr int kBlackwell = 100;

std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

/// Elements of 16 bytes: the library's rows, and where they begin, are multiples of that.
std::int64_t multiple_of(DType dtype) { return 128 / bits(dtype); }

bool is_low_precision(DType dtype) { return is_fp8(dtype) || dtype == DType::e2m1; }

bool is_float8_block(ScalingMode mode) {
  return mode == ScalingMode::float8_block_1d || mode == ScalingMode::float8_block_2d;
}

/// The Hadamard transform fills a last block of k up.
std::int64_t stored_k(const GemmArgs& args) {
  return args.a.hadamard ? round_up(args.k, scaling_block(args.a.scaling_mode).along) : args.k;
}

StoredOperand stored_a(const GemmArgs& args) {
  const std::int64_t k = stored_k(args);
  return args.a.transposed ? StoredOperand{k, args.m, false} : StoredOperand{args.m, k, true};
}

StoredOperand stored_b(const GemmArgs& args) {
  const std::int64_t k = stored_k(args);
  return args.b.transposed ? StoredOperand{args.n, k, true} : StoredOperand{k, args.n, false};
}

/// Whether the values are exact in bf16. Float8 block scales may have any mantissa.
bool is_narrow(const GemmOperand& operand) {
  if (is_float8_block(operand.scaling_mode)) return false;
  return operand.dtype == DType::bf16 || is_low_precision(operand.dtype);
}

/// The type that both operands are decoded to.
DType common_type(const GemmArgs& args) {
  const DType dtype = args.a.dtype;
  if (dtype == args.b.dtype && !is_low_precision(dtype)) return dtype;
  return is_narrow(args.a) && is_narrow(args.b) ? DType::bf16 : DType::f32;
}

/// Why the library cannot multiply low-precision operands as they are, null if it can.
const char* why_not_native(const GemmOperand& a, const GemmOperand& b, int compute_capability) {
  if (!is_low_precision(a.dtype) || !is_low_precision(b.dtype)) {
    return "one operand is of higher precision";
  }
  if (a.dtype == DType::e5m2 && b.dtype == DType::e5m2) return "both operands are e5m2";
  if (is_nvfp4(a.scaling_mode) && is_nvfp4(b.scaling_mode)) {
    return compute_capability >= kBlackwell ? nullptr : "NVFP4 needs compute capability 10.0";
  }
  if (is_float8_block(a.scaling_mode) && is_float8_block(b.scaling_mode)) {
    if (compute_capability != kHopper) return "Float8 block needs compute capability 9.0";
    const bool both_2d =
        a.scaling_mode == b.scaling_mode && a.scaling_mode == ScalingMode::float8_block_2d;
    return both_2d ? "both operands have blocks of 128 x 128" : nullptr;
  }
  if (is_block_scaled(a.scaling_mode) != is_block_scaled(b.scaling_mode) ||
      (is_block_scaled(a.scaling_mode) && a.scaling_mode != b.scaling_mode)) {
    return "the operands' scales are of two kinds";
  }
  if (a.scaling_mode == ScalingMode::mxfp8_1d) {
    return compute_capability >= kBlackwell ? nullptr : "MXFP8 needs compute capability 10.0";
  }
  return compute_capability >= kAda ? nullptr : "FP8 needs compute capability 8.9";
}

/// Whether FP8 operands must lie with k last.
bool wants_k_last(int compute_capability) { return compute_capability / 10 != kBlackwell / 10; }

/// Whether the library writes this type from operands of that one.
bool has_result(DType operands, DType d) {
  if (operands == DType::f64) return d == DType::f64;
  if (d == DType::f32) return true;
  if (is_low_precision(operands)) return d == DType::bf16 || d == DType::f16;
  return d == operands;
}

const char* why_not_direct(const GemmArgs& args, DType operands) {
  const Output& d = args.d;
  if (d.data == nullptr) return "d is not wanted";
  if (d.amax != nullptr) return "the amax of d is wanted";
  if (is_fp8(d.dtype)) return "d is FP8";
  if (!has_result(operands, d.dtype)) return "the library has no result of d's type";
  if (args.bias != nullptr &&
      (is_low_precision(operands) || (d.dtype != DType::f32 && d.dtype != DType::f64))) {
    return "the library takes no f32 bias with d of that type";
  }
  if (args.bias != nullptr && !is_aligned(args.bias)) return "the bias begins off 16 bytes";
  if (!is_aligned(d.data)) return "d begins off 16 bytes";
  return nullptr;
}

bool k_last_in_a(const LibraryProblem& problem) { return !problem.a.transposed; }
bool k_last_in_b(const LibraryProblem& problem) { return problem.b.transposed; }

/// m and k. Rows of memory are multiples of 16 bytes; block scales ask for a little more.
void choose_sizes(LibraryProblem& problem, const GemmArgs& args) {
  const bool a_k_last = k_last_in_a(problem);
  const std::int64_t m_multiple = !a_k_last ? multiple_of(problem.a.dtype)
                                  : is_float8_block(problem.a.scaling_mode) ? 4
                                                                            : 1;
  std::int64_t k_multiple = 1;
  if (a_k_last) k_multiple = multiple_of(problem.a.dtype);
  if (k_last_in_b(problem)) k_multiple = std::max(k_multiple, multiple_of(problem.b.dtype));
  if (problem.a.scaling_mode == ScalingMode::mxfp8_1d) k_multiple = 32;
  problem.m = round_up(args.m, m_multiple);
  problem.k = round_up(stored_k(args), k_multiple);
}

/// d and n, which is the length of d's rows and may be that of b's.
void choose_result(GemmPlan& plan, const GemmArgs& args) {
  LibraryProblem& problem = plan.problem;
  const std::int64_t b_multiple = k_last_in_b(problem) ? 1 : multiple_of(problem.b.dtype);
  const auto padded_n = [&](DType d) {
    return round_up(args.n, std::max(b_multiple, multiple_of(d)));
  };
  plan.why_product = why_not_direct(args, problem.a.dtype);
  const bool whole = problem.m == args.m && padded_n(args.d.dtype) == args.n;
  if (plan.why_product == nullptr && !whole) plan.why_product = "d has no room for the padding";
  const DType product = problem.a.dtype == DType::f64 ? DType::f64 : DType::f32;
  problem.d = plan.why_product == nullptr ? args.d.dtype : product;
  problem.n = padded_n(problem.d);
}

/// What is left to the epilogue, if there is one: the bias, and the tensors' scales.
void choose_factors(GemmPlan& plan, const GemmArgs& args) {
  LibraryProblem& problem = plan.problem;
  const bool direct = plan.why_product == nullptr;
  const bool scaled = direct && (args.a.scale_inv != nullptr || args.b.scale_inv != nullptr);
  problem.has_bias = direct && args.bias != nullptr;
  if (plan.native && !is_block_scaled(problem.a.scaling_mode)) {
    const ScalingMode mode = scaled ? ScalingMode::per_tensor : ScalingMode::none;
    problem.a.scaling_mode = problem.b.scaling_mode = mode;
  } else {
    problem.device_alpha = scaled;
  }
}

OperandPlan plan_operand(const GemmOperand& operand, const StoredOperand& stored,
                         const LibraryMatrix& matrix, bool k_last, std::int64_t across,
                         std::int64_t k) {
  OperandPlan plan{.stored = stored, .rows = k_last ? across : k, .cols = k_last ? k : across};
  const bool whole = plan.rows == stored.rows && plan.cols == stored.cols;
  if (operand.dtype != matrix.dtype) {
    plan.preparation = Preparation::decode;
  } else if (stored.k_last != k_last) {
    plan.preparation = Preparation::transpose;
  } else if (!whole || !is_aligned(operand.data)) {
    plan.preparation = Preparation::pad;
  }
  return plan;
}

/// The rest of a plan that has what its operands become.
void complete(GemmPlan& plan, const GemmArgs& args) {
  LibraryProblem& problem = plan.problem;
  choose_sizes(problem, args);
  choose_result(plan, args);
  choose_factors(plan, args);
  plan.a =
      plan_operand(args.a, stored_a(args), problem.a, k_last_in_a(problem), problem.m, problem.k);
  plan.b =
      plan_operand(args.b, stored_b(args), problem.b, k_last_in_b(problem), problem.n, problem.k);
}

std::string describe(const LibraryMatrix& matrix) {
  return fmt::format("{}{}{}", to_string(matrix.dtype),
                     matrix.scaling_mode == ScalingMode::none
                         ? ""
                         : fmt::format(" {}", to_string(matrix.scaling_mode)),
                     matrix.transposed ? " transposed" : "");
}

const char* describe(Preparation preparation) {
  switch (preparation) {
    case Preparation::none:
      return "as it lies";
    case Preparation::pad:
      return "padded";
    case Preparation::transpose:
      return "transposed";
    case Preparation::decode:
      return "decoded";
  }
  return "";
}

}  // namespace

GemmPlan plan_gemm(const GemmArgs& args, int compute_capability) {
  if (!is_low_precision(args.a.dtype) && !is_low_precision(args.b.dtype)) {
    return plan_decoded_gemm(args, nullptr);
  }
  const char* why = why_not_native(args.a, args.b, compute_capability);
  if (why != nullptr) return plan_decoded_gemm(args, why);
  const bool k_last = wants_k_last(compute_capability);
  GemmPlan plan{.native = true};
  plan.problem.a = {args.a.dtype, args.a.scaling_mode, args.a.transposed && !k_last};
  plan.problem.b = {args.b.dtype, args.b.scaling_mode, args.b.transposed || k_last};
  complete(plan, args);
  return plan;
}

GemmPlan plan_decoded_gemm(const GemmArgs& args, const char* why) {
  const DType dtype = common_type(args);
  GemmPlan plan{.why_decoded = why};
  plan.problem.a = {dtype, ScalingMode::none, args.a.transposed};
  plan.problem.b = {dtype, ScalingMode::none, args.b.transposed};
  complete(plan, args);
  return plan;
}

std::string describe(const LibraryProblem& problem) {
  return fmt::format("{}x{}x{} {} x {} -> {}{}", problem.m, problem.n, problem.k,
                     describe(problem.a), describe(problem.b), to_string(problem.d),
                     problem.has_bias ? " with bias" : "");
}

std::string describe(const GemmPlan& plan) {
  std::string text = fmt::format("{}; a {}, b {}", describe(plan.problem),
                                 describe(plan.a.preparation), describe(plan.b.preparation));
  if (plan.why_decoded != nullptr) text += fmt::format("; decoded: {}", plan.why_decoded);
  if (plan.why_product != nullptr) text += fmt::format("; own epilogue: {}", plan.why_product);
  return text;
}

std::string describe_formats(int compute_capability) {
  struct Format {
    const char* name;
    DType dtype;
    ScalingMode mode;
  };
  constexpr Format kFormats[] = {{"FP8", DType::e4m3, ScalingMode::per_tensor},
                                 {"MXFP8", DType::e4m3, ScalingMode::mxfp8_1d},
                                 {"Float8 block", DType::e4m3, ScalingMode::float8_block_1d},
                                 {"NVFP4", DType::e2m1, ScalingMode::nvfp4_1d}};
  std::vector<const char*> native = {"bf16"}, decoded;
  for (const Format& format : kFormats) {
    const GemmOperand operand{.dtype = format.dtype, .scaling_mode = format.mode};
    const bool is_native = why_not_native(operand, operand, compute_capability) == nullptr;
    (is_native ? native : decoded).push_back(format.name);
  }
  return fmt::format("native matmuls: {}, decoded: {}", fmt::join(native, ", "),
                     fmt::join(decoded, ", "));
}

}  // namespace tape8::cuda
