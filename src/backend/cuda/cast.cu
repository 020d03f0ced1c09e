#include "backend/cuda/block_source.hpp"
#include "backend/cuda/block_values.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/map_values.hpp"

namespace tape8::cuda {
namespace {

struct CastValues {
  Source x;
  std::int64_t cols = 0;
  static constexpr int parts = 1;

  template <class Real>
  __device__ void values(std::int64_t row, std::int64_t col, int count,
                         Real (&out)[kVector]) const {
    x.load(row * cols + col, count, out);
  }
  __device__ void rows(std::int64_t row, std::int64_t col, const int (&counts)[kLaneRows],
                       float (&out)[kLaneRows][kVector]) const {
    x.load_rows(row * cols + col, cols, counts, out);
  }
};

/// Values with block scales.
struct DecodedValues {
  BlockSource memory;
  const ScaleInv* scale_inv = nullptr;
  bool transposed = false;  // memory holds the transpose, in whole blocks
  bool hadamard = false;    // of transformed blocks
  static constexpr int parts = 1;

  DecodedValues(const Input& x, std::int64_t rows, std::int64_t cols) : scale_inv(x.scale_inv) {
    const BlockInput& blocks = *x.blocks;
    const bool columnwise = blocks.usage == Usage::columnwise;
    transposed = columnwise && is_nvfp4(blocks.scaling_mode);
    hadamard = blocks.hadamard && transposed;
    memory = transposed ? BlockSource::of(x.data, x.dtype, cols,
                                          divide_up(rows, std::int64_t{kNvfp4Block}) * kNvfp4Block)
                        : BlockSource::of(x.data, x.dtype, rows, cols);
    memory.set_blocks(blocks.scaling_mode, blocks.scale_inv, transposed || !columnwise);
  }

  template <class Real>
  __device__ void values(std::int64_t row, std::int64_t col, int count,
                         Real (&out)[kVector]) const {
    const Real factor = scale_inv == nullptr ? Real{1} : static_cast<Real>(scale_inv->value);
    if (!transposed) {
      memory.load(row, col, out);
      for (Real& value : out) value *= factor;
      return;
    }
    const int place = static_cast<int>(row % kNvfp4Block);
    for (int i = 0; i < kVector; ++i) {
      out[i] = i < count ? from_column(row - place, col + i, place, factor) : Real{0};
    }
  }

 private:
  /// The value at `place` of the block that begins at `row` of a column.
  template <class Real>
  __device__ Real from_column(std::int64_t row, std::int64_t col, int place, Real factor) const {
    float block[kVector];
    memory.load(col, row, block);
    for (float& value : block) value *= factor;
    if (hadamard) return undo_hadamard_transform(block, place);
    float result = 0.0F;
    for (int i = 0; i < kVector; ++i) result = i == place ? block[i] : result;
    return result;
  }
};

/// To blocks, or with the transform's amax.
void cast_by_tiles(Context& context, const CastArgs& args) {
  const CastValues values{Source(args.x), args.cols};
  if (args.hadamard_amax == nullptr) {
    return map_blocks(context, args.rows, args.cols, values, args.y, args.dbias);
  }
  clear_amax(args.hadamard_amax, context.stream());
  map_tiles(context, args.rows, args.cols, values, HadamardAmax{Sink(args.y), args.hadamard_amax},
            args.y.amax, args.dbias);
  // Where blocks are wanted too they take a pass for themselves.
  if (args.y.blocks != nullptr) {
    map_blocks(context, args.rows, args.cols, values, {.blocks = args.y.blocks});
  }
}

/// From blocks. What goes on by tiles is decoded to f32 first.
void cast_decoded(Context& context, const CastArgs& args) {
  const DecodedValues values(args.x, args.rows, args.cols);
  if (args.y.blocks == nullptr && args.hadamard_amax == nullptr) {
    return map_values<float>(context, args.rows, args.cols, values, args.y, args.dbias);
  }
  const Workspace decoded(context, sizeof(float) * static_cast<std::size_t>(args.rows * args.cols));
  map_values<float>(context, args.rows, args.cols, values, {.data = decoded.as<float>()});
  CastArgs rest = args;
  rest.x = {.data = decoded.as<float>()};
  cast_by_tiles(context, rest);
}

}  // namespace

void cast(Context& context, const CastArgs& args) {
  const bool f64 =
      args.x.dtype == DType::f64 || (args.y.data != nullptr && args.y.dtype == DType::f64);
  check_operands("cast", f64, {args.x}, {args.y}, BlockSupport::inputs_and_outputs);
  if (f64 && args.hadamard_amax != nullptr) refuse("cast", "takes no hadamard_amax with f64");
  if (args.x.blocks != nullptr) return cast_decoded(context, args);
  if (args.y.blocks != nullptr || args.hadamard_amax != nullptr) {
    return cast_by_tiles(context, args);
  }
  // Without sums rows mean nothing.
  const bool flat = args.dbias == nullptr;
  const std::int64_t rows = flat ? 1 : args.rows;
  const std::int64_t cols = flat ? args.rows * args.cols : args.cols;
  with_real(f64, [&]<class Real>(Real) {
    map_values<Real>(context, rows, cols, CastValues{Source(args.x), cols}, args.y, args.dbias);
  });
}

}  // namespace tape8::cuda
