#include "backend/cpu/tiled_ops.hpp"

#include "backend/cpu/costs.hpp"
#include "backend/cpu/tile_run.hpp"

namespace tape8::cpu::tiled {

void cast(const KernelSet& set, const CastArgs& args) {
  const TileRun run(set, args.rows, args.cols, 1, TileWidth::any, args.y);
  run(kCastCost + kBlockCastCost, args.dbias, [&](const TileRows& rows, float* sums) {
    set.kernels.cast_tile(args, rows.tile, rows.values, sums);
  });
}

}  // namespace tape8::cpu::tiled
