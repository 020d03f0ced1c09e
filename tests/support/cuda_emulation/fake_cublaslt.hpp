#pragma once

#include <cstdint>
#include <cstring>
#include <cublasLt.h>
#include <functional>
#include <map>
#include <string>

namespace cuda_emulation {

// cuBLASLt's calls that tape8 makes, computed on the CPU, and refused where the library's
// documentation says that it does not take them.

/// Attributes of one of the library's objects, by number, each of 1 to 8 bytes.
class Attributes {
 public:
  struct Value {
    std::size_t bytes = 0;
    std::uint64_t bits = 0;
    bool operator==(const Value&) const = default;
  };

  explicit Attributes(const std::map<int, Value>& at_first) : values_(at_first) {}

  cublasStatus_t set(int attribute, const void* value, std::size_t bytes);
  cublasStatus_t get(int attribute, void* value, std::size_t bytes, std::size_t* written) const;

  template <class T>
  T value(int attribute) const {
    T result;
    std::memcpy(&result, &values_.at(attribute).bits, sizeof(T));
    return result;
  }
  const std::map<int, Value>& values() const { return values_; }

 private:
  std::map<int, Value> values_;
};

/// A matrix of the library's: column-major.
struct Matrix {
  explicit Matrix(const Attributes& layout);

  cudaDataType_t type;
  std::uint64_t rows, cols;
  std::int64_t stride;
};

/// A matmul as it is described to the library: d [m, n] = op(a) [m, k] * op(b) [k, n].
struct Matmul {
  Matmul(const Attributes& description, const Attributes& a_layout, const Attributes& b_layout,
         const Attributes& c_layout, const Attributes& d_layout, int gpu_capability);

  cublasComputeType_t compute;
  cudaDataType_t scale_type;
  std::int32_t pointer_mode;
  cublasOperation_t a_operation, b_operation;
  std::uint32_t epilogue;
  cudaDataType_t bias_type = CUDA_R_32F;  // d's where nothing else is said
  std::int64_t auxiliary_stride;
  std::int32_t a_mode, b_mode;  // cublasLtMatmulMatrixScale_t
  bool fast_accumulation;
  const void *bias, *a_scale, *b_scale, *c_scale, *d_scale;
  void* amax;
  Matrix a, b, c, d;
  std::uint64_t m, n, k;
  int compute_capability;
};

/// Why the library does not take something.
struct Refusal {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::string why;
};

/// What the library is called with.
struct MatmulMemory {
  const void *alpha, *beta, *a, *b, *c;
  void* d;
};

/// What the memory of matrices is a multiple of, as an algorithm was looked up for.
struct Alignments {
  std::uint32_t a, b, c, d;
};

Refusal check_matmul(const Matmul& matmul);
Refusal check_memory(const Matmul& matmul, const MatmulMemory& memory,
                     const Alignments& alignments);
void compute_matmul(const Matmul& matmul, const MatmulMemory& memory);

constexpr bool is_fp8(cudaDataType_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}
constexpr bool is_fp4(cudaDataType_t type) { return type == CUDA_R_4F_E2M1; }
constexpr bool is_narrow(cudaDataType_t type) { return is_fp8(type) || is_fp4(type); }
std::int64_t bits_of(cudaDataType_t type);

/// How an operand's scales lie. Lines are op(a)'s rows or op(b)'s columns.
struct ScaleLayout {
  std::int32_t mode = 0;
  std::uint64_t lines = 0, k = 0;

  std::uint64_t block() const;  // values of k that share one; 0: all
  std::uint64_t blocks() const;
  std::uint64_t elements() const;
  std::uint64_t bytes() const;
  bool is_tiled() const;
  std::uint64_t place(std::uint64_t line, std::uint64_t block) const;
};
ScaleLayout a_scales(const Matmul& matmul);
ScaleLayout b_scales(const Matmul& matmul);

/// What the library has been asked, and what it lacks; a test may change it.
struct Library {
  std::int64_t lookups = 0;
  std::string refusal;                           ///< why it refused last
  std::function<void(const Matmul&)> on_matmul;  ///< called with each that is computed
  std::function<bool(const Matmul&)> has_no_algorithm;
};
Library& library();

}  // namespace cuda_emulation
