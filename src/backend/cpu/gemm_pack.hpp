#pragma once

#include <cstdint>

#include "backend/cpu/gemm_formats.hpp"
#include "backend/cpu/gemm_kernels.hpp"
#include "backend/cpu/gemm_scales.hpp"
#include "backend/cpu/gemm_tile.hpp"

// Packing, written once over the arithmetic of an instruction set; `Math` as in gemm_tile.hpp.

namespace tape8::cpu {

/// Arithmetic that takes bf16 pairs a value at a time takes the odd one first.
template <class Math>
inline constexpr bool kSwapped = Math::kNarrow&& Math::kPerStep == 1;

/// Neighbours in memory are neighbours in k: blocks of kLanes rows by kLanes steps are transposed.
/// Vectors are stored whole, and what exceeds the width is overwritten by the next step.
template <class Math, class Format, class Blocks>
void pack_along_k(const StripSource& source, std::int64_t steps, std::uint32_t* strip) {
  using Code = typename Format::Code;
  constexpr std::int64_t kLanes = Math::kLanes;
  constexpr std::int64_t kDepth = kLanes * Math::kPerStep;
  const auto* data = static_cast<const Code*>(source.data);
  StripScales<Math, Blocks> scales(source);
  for (std::int64_t step = 0; step < steps; step += kLanes) {
    const std::int64_t k = step * Math::kPerStep;
    scales.advance(k);
    const std::int64_t depth = source.depth - k < kDepth ? source.depth - k : kDepth;
    for (std::int64_t i = 0; i < source.width; i += kLanes) {
      typename Math::Vector block[kLanes];
#pragma GCC unroll 16
      for (std::int64_t r = 0; r < kLanes; ++r) {
        block[r] = Math::zero();
        if (i + r < source.count) {
          const Code* values = data + ((i + r) * source.stride + k) / kValuesPerCode<Format>;
          block[r] = scales.along(Math::template along_k<Format>(values, depth), i + r);
        }
      }
      Math::transpose(block);
      std::uint32_t* out = strip + step * source.width + i;
#pragma GCC unroll 16
      for (std::int64_t s = 0; s < kLanes; ++s) {
        if (step + s >= steps) break;
        Math::store_words(out + s * source.width, block[kSwapped<Math> ? s ^ 1 : s]);
      }
    }
  }
}

/// Neighbours in memory are neighbours in the strip.
template <class Math, class Format, class Blocks>
void pack_across(const StripSource& source, std::int64_t steps, std::uint32_t* strip) {
  using Code = typename Format::Code;
  constexpr std::int64_t kLanes = Math::kLanes;
  constexpr std::int64_t kAhead = 16;
  constexpr std::int64_t kLine = 64;
  const std::int64_t bytes = source.count * static_cast<std::int64_t>(sizeof(Code));
  const auto* data = static_cast<const Code*>(source.data);
  StripScales<Math, Blocks> scales(source);
  for (std::int64_t step = 0; step < steps; ++step) {
    scales.advance(step * Math::kPerStep);
    const std::int64_t k = (kSwapped<Math> ? step ^ 1 : step) * Math::kPerStep;
    const std::int64_t depth = source.depth - k;
    // Each row is on a page of its own, which no hardware prefetcher foresees.
    if (depth > kAhead) {
      const auto* ahead = reinterpret_cast<const char*>(data + (k + kAhead) * source.stride);
      for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(ahead + at);
      __builtin_prefetch(ahead + bytes - 1);
    }
    for (std::int64_t i = 0; i < source.width; i += kLanes) {
      const std::int64_t count = source.count - i < kLanes ? source.count - i : kLanes;
      typename Math::Vector words = Math::zero();
      if (depth > 0 && count > 0) {
        const Code* values = data + k * source.stride + i;
        words = Math::template across<Format>(values, source.stride, depth, count);
        words = scales.across(words, i);
      }
      Math::store_words(strip + step * source.width + i, words);
    }
  }
}

template <class Math, class Format, class Blocks>
void pack_as(const StripSource& source, std::uint32_t* strip) {
  constexpr std::int64_t kMultiple = Math::kNarrow ? 2 : 1;
  const std::int64_t steps =
      (source.depth + kMultiple - 1) / kMultiple * kMultiple / Math::kPerStep;
  if constexpr (kValuesPerCode<Format> == 1) {
    if (!source.k_contiguous) return pack_across<Math, Format, Blocks>(source, steps, strip);
  }
  pack_along_k<Math, Format, Blocks>(source, steps, strip);
}

template <class Math>
void pack_strip(const StripSource& source, std::uint32_t* strip) {
  const auto pack_with = [&](auto blocks) {
    return [&](auto format) { pack_as<Math, decltype(format), decltype(blocks)>(source, strip); };
  };
  switch (source.scales->mode) {
    case ScalingMode::none:
    case ScalingMode::per_tensor:
      if constexpr (Math::kNarrow) {
        return visit_narrow_format(source.dtype, pack_with(NoBlocks{}));
      } else {
        return visit_format(source.dtype, pack_with(NoBlocks{}));
      }
    case ScalingMode::mxfp8_1d:
      return visit_fp8_format(source.dtype, pack_with(Mxfp8Blocks{}));
    case ScalingMode::float8_block_1d:
    case ScalingMode::float8_block_2d:
      return visit_fp8_format(source.dtype, pack_with(Float8Blocks{}));
    case ScalingMode::nvfp4_1d:
    case ScalingMode::nvfp4_2d:
      return pack_as<Math, E2m1Format, Nvfp4Blocks>(source, strip);
  }
}

/// The kernel of an arithmetic.
template <class Math>
constexpr GemmKernel make_gemm_kernel(const char* name, double flops_per_nanosecond) {
  static_assert(Math::kRows <= Math::kLanes && Math::kLanes <= kPackSlack);
  GemmKernel kernel;
  kernel.name = name;
  kernel.flops_per_nanosecond = flops_per_nanosecond;
  kernel.rows = Math::kRows;
  kernel.cols = Math::kVectors * Math::kLanes;
  kernel.half_cols = Math::kLanes;
  kernel.k_multiple = Math::kNarrow ? 2 : 1;
  kernel.k_per_step = Math::kPerStep;
  kernel.pack = pack_strip<Math>;
  kernel.multiply = multiply_rows<Math>;
  kernel.store = store_tile<Math>;
  return kernel;
}

/// Decodes n <= kLanes values; the rest are zeros.
template <class Format, int kLanes>
[[gnu::always_inline]] inline void decode_lanes(const typename Format::Code* p, std::int64_t n,
                                                float* values) {
  if (n >= kLanes) {
    for (int i = 0; i < kLanes; ++i) values[i] = decode_at<Format>(p, i);
  } else {
    for (int i = 0; i < kLanes; ++i) values[i] = i < n ? decode_at<Format>(p, i) : 0.0F;
  }
}

}  // namespace tape8::cpu
