#pragma once

#include "backend/cpu/block_cast_kernels.hpp"
#include "backend/cpu/block_decode_kernels.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/nvfp4_kernels.hpp"

namespace tape8::cpu {

template <class F>
void block_cast_rows(const BlockCast& cast, Tile tile, TileValues values) {
  if (cast.output->dtype != DType::e2m1) return cast_fp8_rows<F>(cast, tile, values);
  if (cast.output->rounding == nullptr) return cast_nvfp4<F, RoundToNearest<F>>(cast, tile, values);
  cast_nvfp4<F, RoundStochastically<F>>(cast, tile, values);
}

template <class F>
bool block_end_rows(const BlockCast& cast, Tile tile, TileValues values) {
  if (cast.output->dtype != DType::e2m1) return end_fp8_rows<F>(cast, tile, values);
  end_nvfp4_rows<F>(cast, tile, values);
  return true;
}

/// The block-scaling kernels on one instruction set's vector.
template <class F>
inline constexpr BlockKernels kBlockKernels{
    .cast_rows = block_cast_rows<F>,
    .end_rows = block_end_rows<F>,
    .cast_columns = cast_fp8_columns<F>,
    .hadamard_amax = hadamard_amax<F>,
    .decode_tile = decode_tile<F>,
};

}  // namespace tape8::cpu
