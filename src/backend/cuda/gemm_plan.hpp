#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "backend/backend.hpp"

namespace tape8::cuda {

// How a GPU does a matmul, decided on the host alone, by types, sizes and addresses.

/// A row-major matrix as cuBLASLt takes it. `scaling_mode` says which scales go with it: none for
/// values of 16 bits and more, and for FP8 whose scale is multiplied in later.
struct LibraryMatrix {
  DType dtype = DType::f32;
  ScalingMode scaling_mode = ScalingMode::none;
  bool transposed = false;

  auto operator<=>(const LibraryMatrix&) const = default;
};

/// What cuBLASLt is asked for: d = alpha * (a * b, scaled) + bias. Sizes include the padding.
struct LibraryProblem {
  std::int64_t m = 0, n = 0, k = 0;
  LibraryMatrix a;  // [m, k]; memory [k, m] if transposed
  LibraryMatrix b;  // [k, n]; memory [n, k] if transposed
  DType d = DType::f32;
  bool has_bias = false;      // of d's type
  bool device_alpha = false;  // alpha is in the GPU's memory; else 1

  auto operator<=>(const LibraryProblem&) const = default;
};

/// An operand's memory, row-major: k is the last axis of it, or the first.
struct StoredOperand {
  std::int64_t rows = 0, cols = 0;
  bool k_last = false;
};

/// How an operand becomes what the library takes.
enum class Preparation {
  none,       ///< it is taken where it lies
  pad,        ///< copied, zeros after its rows and columns
  transpose,  ///< the same, transposed
  decode,     ///< converted, block scales multiplied in, zeros after its rows and columns
};

struct OperandPlan {
  Preparation preparation = Preparation::none;
  StoredOperand stored;             // as it lies
  std::int64_t rows = 0, cols = 0;  // of the library's memory
};

struct GemmPlan {
  LibraryProblem problem;
  OperandPlan a, b;
  bool native = false;  // operands of low precision are multiplied as they are
  /// Why operands of low precision are decoded; null: they are not, or there are none.
  const char* why_decoded = nullptr;
  /// Why the library does not write d: it writes an f32 product (f64 of f64), which an epilogue of
  /// ours scales, adds the bias to and casts. Null: it does.
  const char* why_product = nullptr;
};

/// The fastest that a GPU of this compute capability, 10 * major + minor, has. args have passed
/// check_gemm; no size is 0.
GemmPlan plan_gemm(const GemmArgs& args, int compute_capability);

/// What every GPU can do: operands of low precision are decoded, to bf16 if that holds them exactly
/// and to f32 if not.
GemmPlan plan_decoded_gemm(const GemmArgs& args, const char* why);

/// For messages: "32x64x128 e4m3 per_tensor x e4m3 per_tensor transposed -> f32".
std::string describe(const LibraryProblem& problem);
/// The same with what is done around it, and why no less is.
std::string describe(const GemmPlan& plan);

/// Which formats a GPU multiplies as they are: "native bf16, FP8; decoded MXFP8, ...".
std::string describe_formats(int compute_capability);

}  // namespace tape8::cuda
