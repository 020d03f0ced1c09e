// Operands' bytes and block scales, moved to where cuBLASLt takes them. Bytes of a copy: each one
// read and written once, the padding written.

#include "backend/cuda/flat.hpp"
#include "backend/cuda/gemm_arrange.hpp"

namespace tape8::cuda {
namespace {

/// Bytes that a thread moves at a time.
constexpr int kBytes = 16;
using Bytes = Chunk<kBytes>;

/// `count` bytes from `from` on, at most 16, the rest zeros.
__device__ Bytes load_bytes(const std::uint8_t* from, std::int64_t count) {
  if (count >= kBytes && lies_in_chunks<std::uint8_t, kBytes>(from)) {
    return *reinterpret_cast<const Bytes*>(from);
  }
  Bytes bytes{};
  auto* values = reinterpret_cast<std::uint8_t*>(&bytes);
  for (int i = 0; i < kBytes; ++i) values[i] = i < count ? from[i] : std::uint8_t{0};
  return bytes;
}

/// Rows of bytes in memory.
struct ByteMatrix {
  const std::uint8_t* data = nullptr;
  std::int64_t rows = 0, stride = 0;
  std::int64_t row_bytes = 0;     // of which the last one counts
  std::uint8_t last_mask = 0xFF;  // with these bits alone
};

/// to: rows of to_row_bytes, a multiple of 16, zeros after those of `from`.
__global__ void pad_kernel(ByteMatrix from, std::int64_t to_bytes, std::int64_t to_row_bytes,
                           std::uint8_t* to) {
  for_each_vector<kBytes>(to_bytes, [&](std::int64_t at, int) {
    const std::int64_t row = at / to_row_bytes;
    const std::int64_t col = at % to_row_bytes;
    const std::int64_t count = row < from.rows ? from.row_bytes - col : 0;
    Bytes bytes = load_bytes(from.data + row * from.stride + col, count);
    auto* values = reinterpret_cast<std::uint8_t*>(&bytes);
    for (int i = 0; i < kBytes; ++i) {
      if (i + 1 == count) values[i] &= from.last_mask;
    }
    *reinterpret_cast<Bytes*>(to + at) = bytes;
  });
}

constexpr int kTile = 64;
constexpr int kTileThreads = kTile * kTile / kBytes;

/// to: [to_rows, to_cols], `from` transposed, zeros after its rows and columns. to_cols is a
/// multiple of 16. A block has a tile of 64 x 64 bytes: each thread reads 16 of a row, and writes
/// 16 of a column.
__global__ void transpose_bytes_kernel(ByteMatrix from, std::int64_t to_rows, std::int64_t to_cols,
                                       std::uint8_t* to) {
  // Rows of 17 words: at most two of those that a warp takes at a time are in one bank.
  TAPE8_SHARED(std::uint32_t, tile, [kTile][kTile / 4 + 1]);
  const std::int64_t tiles_across = divide_up(to_rows, std::int64_t{kTile});
  const std::int64_t first_row = blockIdx.x / tiles_across * kTile;
  const std::int64_t first_col = blockIdx.x % tiles_across * kTile;
  const int line = static_cast<int>(threadIdx.x) / (kTile / kBytes);
  const int part = static_cast<int>(threadIdx.x) % (kTile / kBytes);

  const std::int64_t row = first_row + line;
  const std::int64_t col = first_col + part * kBytes;
  const std::int64_t count = row < from.rows ? from.row_bytes - col : 0;
  const Bytes in = load_bytes(from.data + row * from.stride + col, count);
  for (int i = 0; i < kBytes / 4; ++i) tile[line][part * (kBytes / 4) + i] = in.words[i];
  __syncthreads();

  const std::int64_t to_row = first_col + line;
  const std::int64_t to_col = first_row + part * kBytes;
  if (to_row >= to_rows || to_col >= to_cols) return;
  Bytes out;
  for (int i = 0; i < kBytes; ++i) {
    const auto* values = reinterpret_cast<const std::uint8_t*>(tile[part * kBytes + i]);
    reinterpret_cast<std::uint8_t*>(&out)[i] = values[line];
  }
  *reinterpret_cast<Bytes*>(to + to_row * to_cols + to_col) = out;
}

/// Where a block scale lies: `across` along m or n, `along` in blocks of k.
struct ScalePlace {
  std::int64_t across = 0, along = 0;
};

/// How cuBLASLt has scales lie, in elements.
struct ScaleLayout {
  ScalingMode mode = ScalingMode::none;
  std::int64_t stride = 0, count = 0;

  __device__ ScalePlace place(std::int64_t at) const {
    if (mode == ScalingMode::float8_block_1d) return {at % stride, at / stride};
    if (mode == ScalingMode::float8_block_2d) return {at / stride, at % stride};
    // Tiles of 128 x 4, rows of tiles along k; in a tile 32 rows of 4 x 4.
    const std::int64_t tile = at / 512, tiles_along = stride / 4;
    const std::int64_t in_tile = at % 512;
    return {tile / tiles_along * 128 + in_tile % 16 / 4 * 32 + in_tile / 16,
            tile % tiles_along * 4 + in_tile % 4};
  }
};

std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return divide_up(size, multiple) * multiple;
}

ScaleLayout layout_of(ScalingMode mode, std::int64_t across, std::int64_t k) {
  const std::int64_t along = divide_up(k, scaling_block(mode).along);
  const std::int64_t along_4 = round_up(along, 4);
  switch (mode) {
    case ScalingMode::float8_block_1d:
      return {mode, across, across * along};
    case ScalingMode::float8_block_2d:
      return {mode, along_4, along_4 * divide_up(across, scaling_block(mode).across)};
    default:
      return {mode, along_4, along_4 * round_up(across, 128)};
  }
}

/// The scales as backend.hpp has them lie.
struct ScaleSource {
  const void* data = nullptr;
  std::int64_t across = 0, along = 0;  // those that the library has of them
  std::int64_t across_stride = 0, along_stride = 0;
  std::int64_t repeats = 1;  // each is so many of the library's across
};

template <class Scale>
__global__ void arrange_scales_kernel(ScaleSource from, ScaleLayout layout, Scale* to) {
  for_each_vector<1>(layout.count, [&](std::int64_t at, int) {
    const ScalePlace place = layout.place(at);
    const bool there = place.across < from.across && place.along < from.along;
    const std::int64_t index =
        place.across / from.repeats * from.across_stride + place.along * from.along_stride;
    to[at] = there ? static_cast<const Scale*>(from.data)[index] : Scale{0};
  });
}

ByteMatrix bytes_of(const GemmOperand& operand, const StoredOperand& stored) {
  const auto* data = static_cast<const std::uint8_t*>(operand.data);
  if (operand.dtype == DType::e2m1) {
    // Rows are whole blocks of 16, two values a byte, the first low.
    const bool odd = stored.cols % 2 != 0;
    return {data, stored.rows, round_up(stored.cols, 16) / 2, divide_up(stored.cols, 2),
            static_cast<std::uint8_t>(odd ? 0x0F : 0xFF)};
  }
  const std::int64_t row_bytes = stored.cols * bits(operand.dtype) / 8;
  return {data, stored.rows, row_bytes, row_bytes, 0xFF};
}

}  // namespace

void pad_operand(Context& context, const GemmOperand& from, const OperandPlan& plan, void* to) {
  const std::int64_t row_bytes = plan.cols * bits(from.dtype) / 8;
  const std::int64_t bytes = plan.rows * row_bytes;
  launch(pad_kernel, flat_config_of<kBytes>(context, bytes), bytes_of(from, plan.stored), bytes,
         row_bytes, static_cast<std::uint8_t*>(to));
}

void transpose_operand(Context& context, const GemmOperand& from, const OperandPlan& plan,
                       void* to) {
  const std::int64_t tiles =
      divide_up(plan.rows, std::int64_t{kTile}) * divide_up(plan.cols, std::int64_t{kTile});
  launch(transpose_bytes_kernel,
         {.grid = dim3(static_cast<unsigned>(tiles)),
          .block = dim3(kTileThreads),
          .stream = context.stream()},
         bytes_of(from, plan.stored), plan.rows, plan.cols, static_cast<std::uint8_t*>(to));
}

std::int64_t arranged_scale_bytes(ScalingMode mode, std::int64_t across, std::int64_t k) {
  return layout_of(mode, across, k).count * bits(scale_dtype(mode)) / 8;
}

void arrange_scales(Context& context, const GemmOperand& from, const StoredOperand& stored,
                    std::int64_t across, std::int64_t k, void* to) {
  const ScalingMode mode = from.scaling_mode;
  const ScalingBlock block = scaling_block(mode);
  const std::int64_t stored_k = stored.k_last ? stored.cols : stored.rows;
  const std::int64_t stored_across = stored.k_last ? stored.rows : stored.cols;
  ScaleSource source;
  source.data = from.block_scale_inv;
  // The library has 2-D blocks of Float8 alone.
  source.repeats = mode == ScalingMode::nvfp4_2d ? block.across : 1;
  source.across = divide_up(stored_across * source.repeats, block.across);
  source.along = divide_up(stored_k, block.along);
  source.across_stride = stored.k_last ? source.along : 1;
  source.along_stride = stored.k_last ? 1 : divide_up(stored_across, block.across);
  const ScaleLayout layout = layout_of(mode, across, k);
  const LaunchConfig config = flat_config_of<1>(context, layout.count);
  if (scale_dtype(mode) == DType::f32) {
    launch(arrange_scales_kernel<float>, config, source, layout, static_cast<float*>(to));
  } else {
    launch(arrange_scales_kernel<std::uint8_t>, config, source, layout,
           static_cast<std::uint8_t*>(to));
  }
}

}  // namespace tape8::cuda
