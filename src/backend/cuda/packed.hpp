#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/backend.hpp"
#include "backend/cuda/launch.hpp"

namespace tape8::cuda {

/// Elements that a thread takes at a time: 16 bytes of FP8, twice 16 of bf16.
inline constexpr int kVector = 16;

/// What memory is moved in.
template <std::size_t kSize>
struct alignas(kSize) Chunk {
  std::uint32_t words[kSize / sizeof(std::uint32_t)];
};

/// 16 bytes, or all of a vector of N values that has fewer.
template <class T, int N>
using ChunkOf = Chunk<std::clamp<std::size_t>(N * sizeof(T), sizeof(std::uint32_t), 16)>;

template <class T, int N>
__device__ bool lies_in_chunks(const T* data) {
  using Part = ChunkOf<T, N>;
  return N * sizeof(T) % sizeof(Part) == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % sizeof(Part) == 0;
}

/// A value in Real, f32 or f64, exactly.
template <class Real, class T>
__device__ Real widen(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return static_cast<Real>(value);
  } else {
    return static_cast<Real>(static_cast<float>(value));
  }
}

/// A value rounded once. FP8 saturates, +-Inf too, and NaN becomes 0x7F.
template <class T, class Real>
__device__ T narrow(Real value) {
  if constexpr (std::is_same_v<T, __nv_fp8_e4m3>) {
    T result;
    result.__x = __nv_cvt_float_to_fp8(static_cast<float>(value), __NV_SATFINITE, __NV_E4M3);
    return result;
  } else if constexpr (std::is_same_v<T, __nv_fp8_e5m2>) {
    T result;
    result.__x = __nv_cvt_float_to_fp8(static_cast<float>(value), __NV_SATFINITE, __NV_E5M2);
    return result;
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if constexpr (std::is_same_v<Real, double>)
      return __double2bfloat16(value);
    else
      return __float2bfloat16_rn(value);
  } else if constexpr (std::is_same_v<T, __half>) {
    if constexpr (std::is_same_v<Real, double>)
      return __double2half(value);
    else
      return __float2half_rn(value);
  } else {
    return static_cast<T>(value);
  }
}

/// `count` of N values, a power of two, from `data` on, the rest zeros: in chunks where all values
/// are there and lie so.
template <class T, class Real, int N>
__device__ void load_vector(const T* data, int count, Real (&values)[N]) {
  if (count >= N && lies_in_chunks<T, N>(data)) {
    using Part = ChunkOf<T, N>;
    Part parts[(N * sizeof(T) + sizeof(Part) - 1) / sizeof(Part)];
    for (std::size_t i = 0; i < sizeof(parts) / sizeof(Part); ++i) {
      parts[i] = reinterpret_cast<const Part*>(data)[i];
    }
    T elements[N];
    memcpy(elements, parts, sizeof(elements));
    for (int i = 0; i < N; ++i) values[i] = widen<Real>(elements[i]);
  } else {
    for (int i = 0; i < N; ++i) values[i] = i < count ? widen<Real>(data[i]) : Real{0};
  }
}

/// The same for rows `stride` apart, counts[r] values of each: all chunks are on their way before
/// the first is looked at.
template <class T, class Real, int kRows, int N>
__device__ void load_vectors(const T* data, std::int64_t stride, const int (&counts)[kRows],
                             Real (&values)[kRows][N]) {
  using Part = ChunkOf<T, N>;
  bool whole = true;
  TAPE8_UNROLL
  for (int r = 0; r < kRows; ++r) {
    whole = whole && counts[r] >= N && lies_in_chunks<T, N>(data + r * stride);
  }
  if (!whole) {
    TAPE8_UNROLL
    for (int r = 0; r < kRows; ++r) load_vector(data + r * stride, counts[r], values[r]);
    return;
  }
  Part parts[kRows][(N * sizeof(T) + sizeof(Part) - 1) / sizeof(Part)];
  TAPE8_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TAPE8_UNROLL
    for (std::size_t i = 0; i < sizeof(parts[r]) / sizeof(Part); ++i) {
      parts[r][i] = reinterpret_cast<const Part*>(data + r * stride)[i];
    }
  }
  TAPE8_UNROLL
  for (int r = 0; r < kRows; ++r) {
    T elements[N];
    memcpy(elements, parts[r], sizeof(elements));
    TAPE8_UNROLL
    for (int i = 0; i < N; ++i) values[r][i] = widen<Real>(elements[i]);
  }
}

/// The same the other way round; nothing past `count` is written.
template <class T, class Real, int N>
__device__ void store_vector(T* data, int count, const Real (&values)[N]) {
  if (count >= N && lies_in_chunks<T, N>(data)) {
    using Part = ChunkOf<T, N>;
    T elements[N];
    for (int i = 0; i < N; ++i) elements[i] = narrow<T>(values[i]);
    Part parts[(N * sizeof(T) + sizeof(Part) - 1) / sizeof(Part)];
    memcpy(parts, elements, sizeof(elements));
    for (std::size_t i = 0; i < sizeof(parts) / sizeof(Part); ++i) {
      reinterpret_cast<Part*>(data)[i] = parts[i];
    }
  } else {
    for (int i = 0; i < N; ++i) {
      if (i < count) data[i] = narrow<T>(values[i]);
    }
  }
}

/// A kernel's argument to read from: backend.hpp's Input of one scale.
struct Source {
  const void* data = nullptr;
  DType dtype = DType::f32;
  const ScaleInv* scale_inv = nullptr;

  Source() = default;
  explicit Source(const Input& input)
      : data(input.data), dtype(input.dtype), scale_inv(input.scale_inv) {}

  /// Values `index`, index + 1, ..., `count` of them.
  template <class Real, int N>
  __device__ void load(std::int64_t index, int count, Real (&values)[N]) const {
    visit([&](const auto* elements) { load_vector(elements + index, count, values); });
    if (scale_inv == nullptr) return;
    for (Real& value : values) value *= static_cast<Real>(scale_inv->value);
  }

  /// The same for rows `stride` apart, counts[r] values of each.
  template <class Real, int kRows, int N>
  __device__ void load_rows(std::int64_t index, std::int64_t stride, const int (&counts)[kRows],
                            Real (&values)[kRows][N]) const {
    visit([&](const auto* elements) { load_vectors(elements + index, stride, counts, values); });
    if (scale_inv == nullptr) return;
    TAPE8_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TAPE8_UNROLL
      for (int i = 0; i < N; ++i) values[r][i] *= static_cast<Real>(scale_inv->value);
    }
  }

  template <class Real>
  __device__ Real load_one(std::int64_t index) const {
    Real value[1];
    load(index, 1, value);
    return value[0];
  }

 private:
  /// Calls body(elements) with their type, which is the same for all threads: no warp diverges.
  template <class Body>
  __device__ void visit(const Body& body) const {
    switch (dtype) {
      case DType::f64:
        return body(static_cast<const double*>(data));
      case DType::f32:
        return body(static_cast<const float*>(data));
      case DType::bf16:
        return body(static_cast<const __nv_bfloat16*>(data));
      case DType::f16:
        return body(static_cast<const __half*>(data));
      case DType::e4m3:
        return body(static_cast<const __nv_fp8_e4m3*>(data));
      case DType::e5m2:
        return body(static_cast<const __nv_fp8_e5m2*>(data));
      default:
        return;
    }
  }
};

/// A kernel's argument to write to: backend.hpp's Output of one scale. The host sets *amax to zero
/// before the launch (clear_amax).
struct Sink {
  void* data = nullptr;  // null: values are not wanted
  DType dtype = DType::f32;
  const Scale* scale = nullptr;
  Amax* amax = nullptr;

  Sink() = default;
  explicit Sink(const Output& output)
      : data(output.data), dtype(output.dtype), scale(output.scale), amax(output.amax) {}

  /// Rounds once and writes values `index`, index + 1, ... .
  template <class Real, int N>
  __device__ void store(std::int64_t index, int count, const Real (&values)[N]) const {
    switch (dtype) {
      case DType::f64:
        store_vector(static_cast<double*>(data) + index, count, values);
        break;
      case DType::f32:
        store_vector(static_cast<float*>(data) + index, count, values);
        break;
      case DType::bf16:
        store_vector(static_cast<__nv_bfloat16*>(data) + index, count, values);
        break;
      case DType::f16:
        store_vector(static_cast<__half*>(data) + index, count, values);
        break;
      case DType::e4m3:
        store_scaled(static_cast<__nv_fp8_e4m3*>(data) + index, count, values);
        break;
      case DType::e5m2:
        store_scaled(static_cast<__nv_fp8_e5m2*>(data) + index, count, values);
        break;
      default:
        break;
    }
  }

 private:
  template <class T, class Real, int N>
  __device__ void store_scaled(T* to, int count, const Real (&values)[N]) const {
    const float factor = scale == nullptr ? 1.0F : scale->value;
    float scaled[N];
    for (int i = 0; i < N; ++i) scaled[i] = static_cast<float>(values[i]) * factor;
    store_vector(to, count, scaled);
  }
};

}  // namespace tape8::cuda
