#include "quantize/block_cast.hpp"

#include <utility>

#include "quantize/amax_notes.hpp"
#include "quantize/quantizer_state.hpp"

namespace tape8 {
namespace {

constexpr std::int64_t kFp4Multiple = 16;  // NVFP4's contracted axis is filled up to it

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

BlockCastShapes block_cast_shapes(ScalingMode mode, Usage usage, const Shape& shape,
                                  MatrixShape matrix) {
  const ScalingBlock block = scaling_block(mode);
  const bool rowwise = usage == Usage::rowwise;
  const std::int64_t along = rowwise ? matrix.cols : matrix.rows;
  const std::int64_t across = rowwise ? matrix.rows : matrix.cols;
  const std::int64_t blocks_along = divide_up(along, block.along);
  const std::int64_t blocks_across = divide_up(across, block.across);
  if (is_nvfp4(mode)) {
    return {{across, divide_up(along, kFp4Multiple) * kFp4Multiple}, {blocks_across, blocks_along}};
  }
  return {shape, rowwise ? Shape{blocks_across, blocks_along} : Shape{blocks_along, blocks_across}};
}

BlockCast::BlockCast(const Quantizer& quantizer, const Shape& shape, DType dtype,
                     const CastRequest& request, const Device& device)
    : shape_(shape),
      flatten_axis_(request.flatten_axis),
      dq_dtype_(dtype),
      mode_(quantizer.state()->scaling_mode()) {
  output_.scaling_mode = mode_;
  output_.dtype = quantizer.dtype();
  if (const auto* block = std::get_if<Float8BlockScaling>(&quantizer.recipe())) {
    output_.power_of_2_scale = block->power_of_2_scale;
  }
  output_.hadamard = request.hadamard && request.usages.columnwise && quantizer.state()->hadamard();
  if (const std::optional<RandomState> before = quantizer.state()->random_state()) {
    if (AmaxNotes* notes = AmaxNotes::current()) notes->note_draw(quantizer.state(), *before);
    rounding_ = quantizer.state()->next_rounding();
    output_.rounding = &*rounding_;
  }
  // Square FP8 blocks are the same for both usages.
  const bool shared = mode_ == ScalingMode::float8_block_2d;
  if (request.usages.rowwise || shared) allocate(Usage::rowwise, device);
  if (request.usages.columnwise && !shared) allocate(Usage::columnwise, device);
}

void BlockCast::allocate(Usage usage, const Device& device) {
  const auto index = static_cast<std::size_t>(usage);
  const BlockCastShapes shapes =
      block_cast_shapes(mode_, usage, shape_, matrix_shape(shape_, flatten_axis_));
  QuantizedPart& part = parts_[index];
  part = {.data = Tensor::empty(shapes.data, output_.dtype, device),
          .scale_inv = Tensor::empty(shapes.scale_inv, scale_dtype(mode_), device),
          .scaling_mode = mode_,
          .dq_dtype = dq_dtype_,
          .hadamard = output_.hadamard && usage == Usage::columnwise};
  BlockPart& target = usage == Usage::rowwise ? output_.rowwise : output_.columnwise;
  target = {.data = part.data.mutable_data(), .scale_inv = part.scale_inv.mutable_data()};
  if (is_nvfp4(mode_)) {
    part.tensor_scale_inv = Tensor::empty({}, DType::f32, device);
    Tensor& amax = part.hadamard ? hadamard_amax_ : amax_;
    if (!amax.defined()) amax = Tensor::empty({}, DType::f32, device);
    target.amax = static_cast<const Amax*>(amax.data());
    target.tensor_scale_inv = static_cast<ScaleInv*>(part.tensor_scale_inv.mutable_data());
  }
}

Amax* BlockCast::amax() { return static_cast<Amax*>(amax_.mutable_data()); }

Amax* BlockCast::hadamard_amax() { return static_cast<Amax*>(hadamard_amax_.mutable_data()); }

QuantizedTensor BlockCast::finish() {
  if (mode_ == ScalingMode::float8_block_2d) parts_[1] = parts_[0];
  return {shape_, flatten_axis_, std::move(parts_[0]), std::move(parts_[1])};
}

}  // namespace tape8
