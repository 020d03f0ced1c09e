#pragma once

#include <cstdint>

#include "backend/cpu/gemm_formats.hpp"
#include "backend/cpu/gemm_kernels.hpp"

// Block scales, which packing multiplies into the values. `Math` as in gemm_tile.hpp.

namespace tape8::cpu {

/// Scales of blocks of kAlong values of k.
template <class Format, std::int64_t kAlongValues>
struct BlocksOf {
  using Scale = Format;
  static constexpr std::int64_t kAlong = kAlongValues;
};

using Mxfp8Blocks = BlocksOf<E8m0Format, 32>;
using Float8Blocks = BlocksOf<F32Format, 128>;
using Nvfp4Blocks = BlocksOf<E4m3Format, 16>;
struct NoBlocks {};

/// The bits of each value of a format of a byte.
template <class Format>
struct DecodeTable {
  std::uint32_t bits[256];
  constexpr DecodeTable() : bits{} {
    for (std::uint32_t code = 0; code < 256; ++code) bits[code] = float_bits(Format::decode(code));
  }
};

template <class Format>
inline constexpr DecodeTable<Format> kDecodeTable;

template <class Format>
[[gnu::always_inline]] inline std::uint32_t decoded_bits(typename Format::Code code) {
  if constexpr (sizeof(code) == 1) {
    return kDecodeTable<Format>.bits[code];
  } else {
    return float_bits(Format::decode(code));
  }
}

/// The scales of the rows of a strip in the block of k that is being packed, or in the two that a
/// vector of values along k reaches into. A word of values needs one: no block ends inside it.
template <class Math, class Blocks>
class StripScales {
 public:
  explicit StripScales(const StripSource& strip)
      : strip_(strip),
        scales_(*strip.scales),
        block_(static_cast<const Code*>(scales_.data) + strip.first_k / kAlong * scales_.stride_k) {
  }

  /// To be called with k in ascending order, with each k that a block begins at.
  void advance(std::int64_t k) {
    if (k % kAlong != 0) return;
    for (std::int64_t i = 0; i < kBlocks; ++i, block_ += scales_.stride_k) {
      if (k + i * kAlong < strip_.depth) load(words_[i]);
    }
  }

  /// Values of one row from k on.
  typename Math::Vector along(typename Math::Vector values, std::int64_t row) const {
    if constexpr (kBlocks == 1) {
      return Math::scaled(values, Math::broadcast_word(words_[0] + row));
    } else {
      static_assert(kBlocks == 2);
      return Math::scaled(values, Math::broadcast_halves(words_[0] + row, words_[1] + row));
    }
  }

  /// Values of consecutive rows.
  typename Math::Vector across(typename Math::Vector values, std::int64_t row) const {
    return Math::scaled(values, Math::load_words(words_[0] + row));
  }

 private:
  using Code = typename Blocks::Scale::Code;
  static constexpr std::int64_t kAlong = Blocks::kAlong;
  static constexpr std::int64_t kDepth = Math::kLanes * Math::kPerStep;
  static constexpr std::int64_t kBlocks = kDepth > kAlong ? kDepth / kAlong : 1;
  static_assert(kAlong % kDepth == 0 || kDepth % kAlong == 0);

  void load(std::uint32_t* words) const {
    for (std::int64_t i = 0; i < strip_.count; ++i) {
      const std::int64_t row = (strip_.first_row + i) >> scales_.across_bits;
      words[i] = decoded_bits<typename Blocks::Scale>(block_[row * scales_.stride_rows]);
    }
  }

  const StripSource& strip_;
  const ScaleSource& scales_;
  const Code* block_;
  // Zeros where there are no values: these are zeros themselves, and must not become NaN.
  alignas(64) std::uint32_t words_[kBlocks][Math::kVectors * Math::kLanes] = {};
};

template <class Math>
class StripScales<Math, NoBlocks> {
 public:
  explicit StripScales(const StripSource&) {}
  void advance(std::int64_t) {}
  typename Math::Vector along(typename Math::Vector values, std::int64_t) const { return values; }
  typename Math::Vector across(typename Math::Vector values, std::int64_t) const { return values; }
};

}  // namespace tape8::cpu
