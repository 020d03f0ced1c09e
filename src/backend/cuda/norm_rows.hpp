#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"
#include "backend/cuda/flat.hpp"
#include "backend/cuda/math.hpp"

namespace tape8::cuda {

// What the norms' kernels share: a block takes a row at a time.

/// Rows up to so many bytes as Real stay in shared memory; longer ones are read anew by each pass.
inline constexpr std::int64_t kKeptRowBytes = 32 << 10;

/// Of a row, its last vector filled up.
constexpr std::int64_t kept_values(std::int64_t cols) {
  return divide_up(cols, std::int64_t{kVector}) * kVector;
}

/// Whole warps, enough for a row's vectors; shared memory for `rows_kept` rows where they fit.
template <class Real>
LaunchConfig norm_config(const Context& context, std::int64_t rows, std::int64_t cols,
                         int rows_kept) {
  LaunchConfig config = flat_config(context, rows);
  const std::int64_t warps = divide_up(cols, std::int64_t{kVector} * kWarp);
  config.block =
      dim3(static_cast<unsigned>(kWarp * std::clamp<std::int64_t>(warps, 1, kFlatThreads / kWarp)));
  const std::int64_t bytes =
      rows_kept * kept_values(cols) * static_cast<std::int64_t>(sizeof(Real));
  config.shared_bytes = bytes <= kKeptRowBytes ? static_cast<std::size_t>(bytes) : 0;
  return config;
}

/// A row of a matrix, read from memory once if it is kept. Each thread has the same vectors in
/// every pass, so none waits for what another has kept.
template <class Real>
class Row {
 public:
  /// `kept` is shared memory for the vectors of the row, or null.
  __device__ Row(const Source& source, std::int64_t cols, Real* kept)
      : source_(source), cols_(cols), vectors_((cols + kVector - 1) / kVector), kept_(kept) {}

  __device__ void begin(std::int64_t row) {
    row_ = row;
    if (kept_ == nullptr) return;
    for_each([&](std::int64_t c, int count) {
      Real values[kVector];
      source_.load(row * cols_ + c, count, values);
      for (int i = 0; i < kVector; ++i) kept_[place(c, i)] = values[i];
    });
  }

  __device__ void load(std::int64_t c, int count, Real (&values)[kVector]) const {
    if (kept_ == nullptr) return source_.load(row_ * cols_ + c, count, values);
    for (int i = 0; i < kVector; ++i) values[i] = kept_[place(c, i)];
  }

  /// Calls body(first column, columns) for the calling thread's vectors.
  template <class Body>
  __device__ void for_each(const Body& body) const {
    for (std::int64_t c = std::int64_t{threadIdx.x} * kVector; c < cols_;
         c += std::int64_t{blockDim.x} * kVector) {
      body(c, cols_ - c < kVector ? static_cast<int>(cols_ - c) : kVector);
    }
  }

 private:
  /// The same value of neighbouring vectors side by side: no two threads of a warp in one bank.
  __device__ std::int64_t place(std::int64_t c, int i) const { return i * vectors_ + c / kVector; }

  const Source& source_;
  std::int64_t cols_, vectors_;
  Real* kept_;
  std::int64_t row_ = 0;
};

/// xhat = (x - center) * rsigma + shift: the shift is what rounding the center left out.
template <class Real>
struct Normalizer {
  Real center, rsigma, shift;

  __device__ Real operator()(Real x) const { return (x - center) * rsigma + shift; }
};

/// Gamma and beta, or what stands for them.
template <class Real>
struct Affine {
  const Real* gamma = nullptr;
  const Real* beta = nullptr;  // null: zeros
  bool zero_centered = false;

  __device__ Real gamma_at(std::int64_t c) const {
    return zero_centered ? gamma[c] + Real{1} : gamma[c];
  }
  __device__ Real beta_at(std::int64_t c) const { return beta == nullptr ? Real{0} : beta[c]; }
};

}  // namespace tape8::cuda
