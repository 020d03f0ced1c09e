#include "backend/cpu/tiled_ops.hpp"

#include "backend/cpu/activation_parts.hpp"
#include "backend/cpu/costs.hpp"
#include "backend/cpu/tile_run.hpp"

namespace tape8::cpu::tiled {

void cast(const KernelSet& set, const CastArgs& args) {
  const bool decodes = args.x.blocks != nullptr;
  const TileRun run(set, args.rows, args.cols, {.row_blocks = decodes, .inputs = {{{&args.x}}}},
                    args.y, args.hadamard_amax);
  run(kCastCost + kBlockCastCost, args.dbias, [&](const TileRows& rows, float* sums) {
    if (decodes) {
      set.blocks.decode_tile(args.x, args.rows, args.cols, rows.tile, rows.values);
    } else {
      set.kernels.load_tile(args.x, args.cols, rows.tile, rows.values);
    }
    if (sums != nullptr) set.kernels.sum_tile(rows.tile, rows.values, sums);
  });
}

void activation(const KernelSet& set, const ActivationArgs& args) {
  const ActivationParts parts = parts_of(args.type);
  const TileRun run(set, args.rows, args.cols, {.inputs = {{{&args.x, parts.count}}}}, args.y);
  run(kActivationCost + kBlockCastCost, nullptr, [&](const TileRows& rows, float*) {
    set.kernels.activation_tile(args, parts, rows.tile, rows.values);
  });
}

void activation_backward(const KernelSet& set, const ActivationBackwardArgs& args) {
  const ActivationParts parts = parts_of(args.type);
  const TileRun run(set, args.rows, args.cols,
                    {.parts = parts.count, .inputs = {{{&args.dy}, {&args.x, parts.count}}}},
                    args.dx);
  run(kActivationBackwardCost + kBlockCastCost, args.dbias, [&](const TileRows& rows, float* sums) {
    set.kernels.activation_backward_tile(args, parts, rows.tile, rows.values, rows.part_offset,
                                         sums);
  });
}

void norm(const KernelSet& set, const NormArgs& args) {
  const TileRun run(set, args.rows, args.cols,
                    {.whole_rows = true, .repeatable = true, .inputs = {{{&args.x}}}}, args.y);
  run(kNormCost + kBlockCastCost, nullptr, [&](const TileRows& rows, float*) {
    set.kernels.norm_tile(args, rows.tile, rows.values, rows.normalizers, rows.again);
  });
}

}  // namespace tape8::cpu::tiled
