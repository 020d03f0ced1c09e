#pragma once

#include "backend/cpu/block_cast_kernels.hpp"
#include "backend/cpu/block_decode_kernels.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/nvfp4_kernels.hpp"

namespace tape8::cpu {

template <class F>
void block_cast_rows(const BlockCast& cast, Tile tile, TileValues values) {
  if (cast.output->dtype == DType::e2m1) return nvfp4_cast_rows<F>(cast, tile, values);
  fp8_cast_rows<F>(cast, tile, values);
}

template <class F>
void block_cast_band(const BlockCast& cast, Tile tile, TileValues values) {
  if (cast.output->dtype == DType::e2m1) return nvfp4_cast_band<F>(cast, tile, values);
  fp8_cast_band<F>(cast, tile, values);
}

/// The block-scaling kernels on one instruction set's vector.
template <class F>
inline constexpr BlockKernels kBlockKernels{
    .cast_rows = block_cast_rows<F>,
    .cast_band = block_cast_band<F>,
    .hadamard_amax = hadamard_amax<F>,
    .decode_tile = decode_tile<F>,
};

}  // namespace tape8::cpu
