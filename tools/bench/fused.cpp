#include "bench/fused.hpp"

#include <array>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include <tape8/tape8.hpp>

#include "backend/backend.hpp"
#include "bench/values.hpp"

namespace tape8::tools::bench {
namespace {

enum class Kind { cast, norm, activation, activation_backward };

struct FusedOp {
  std::string_view name;
  Kind kind = Kind::cast;
  bool dbias = false;
  NormType norm_type = NormType::layernorm;
  ActivationType activation = gelu;
};

std::array<FusedOp, 8> fused_ops() {
  return {{{"cast", Kind::cast},
           {"cast_dbias", Kind::cast, true},
           {"layernorm_cast", Kind::norm},
           {"rmsnorm_cast", Kind::norm, false, NormType::rmsnorm},
           {"gelu_cast", Kind::activation, false, {}, gelu},
           {"swiglu_cast", Kind::activation, false, {}, swiglu},
           {"dgelu_dbias_cast", Kind::activation_backward, true, {}, gelu},
           {"dswiglu_dbias_cast", Kind::activation_backward, true, {}, swiglu}}};
}

/// What a result is cast to.
struct Target {
  std::string_view name;  // empty: one scale for the tensor
  Recipe recipe = CurrentScaling{.format = Fp8Format::e4m3};
  bool columnwise = false;
};

std::array<Target, 4> targets() {
  return {{{""},
           {"mxfp8", MXFP8BlockScaling{}, true},
           {"float8_block", Float8BlockScaling{}, true},
           {"nvfp4", NVFP4BlockScaling{}, true}}};
}

struct Size {
  std::int64_t rows = 0, cols = 0;
};

// One that caches hold, and one that comes from memory.
constexpr Size kInCache{2048, 768};
constexpr Size kFromMemory{16384, 3072};

constexpr DType kType = DType::bf16;

/// The memory of an op's arguments.
class FusedCall {
 public:
  FusedCall(const FusedOp& op, const Target& target, const Size& size, const Device& device)
      : op_(op), size_(size) {
    x_ = make_values({size.rows, size.cols * parts_of_x()}, kType).to(device);
    if (op.kind == Kind::activation_backward) {
      dy_ = make_values({size.rows, size.cols}, kType).to(device);
    }
    if (op.kind == Kind::norm) {
      gamma_ = make_values({size.cols}, DType::f32).to(device);
      beta_ = make_values({size.cols}, DType::f32).to(device);
      mu_ = Tensor::zeros({size.rows}, DType::f32, device);
      rsigma_ = Tensor::zeros({size.rows}, DType::f32, device);
    }
    const std::int64_t y_cols = size.cols * parts_of_y();
    if (op.dbias) dbias_ = Tensor::zeros({y_cols}, DType::f32, device);
    // A cast of zeros is of the form of any other.
    y_ = make_quantizer(target.recipe, TensorRole::x)
             .quantize(Tensor::zeros({size.rows, y_cols}, kType, device));
    scale_ = Tensor::full({1}, 16.0, DType::f32, device);
    amax_ = Tensor::zeros({1}, DType::f32, device);
    known_amax_ = Tensor::full({1}, 6.0, DType::f32, device);
    columnwise_ = target.columnwise;
    point_output();
  }

  FusedCall(const FusedCall&) = delete;
  FusedCall& operator=(const FusedCall&) = delete;

  void run() {
    Backend& kernels = backend(x_.device());
    switch (op_.kind) {
      case Kind::cast:
        return kernels.cast({.rows = size_.rows,
                             .cols = size_.cols,
                             .x = input(x_),
                             .y = output_,
                             .dbias = dbias_.mutable_data()});
      case Kind::norm:
        return kernels.norm({.type = op_.norm_type,
                             .rows = size_.rows,
                             .cols = size_.cols,
                             .x = input(x_),
                             .gamma = gamma_.data(),
                             .beta = is_layernorm() ? beta_.data() : nullptr,
                             .y = output_,
                             .mu = is_layernorm() ? mu_.mutable_data() : nullptr,
                             .rsigma = rsigma_.mutable_data()});
      case Kind::activation:
        return kernels.activation({.type = op_.activation,
                                   .rows = size_.rows,
                                   .cols = size_.cols,
                                   .x = input(x_),
                                   .y = output_});
      case Kind::activation_backward:
        return kernels.activation_backward({.type = op_.activation,
                                            .rows = size_.rows,
                                            .cols = size_.cols,
                                            .dy = input(dy_),
                                            .x = input(x_),
                                            .dx = output_,
                                            .dbias = dbias_.mutable_data()});
    }
  }

  /// Read and written in one run, each byte once.
  std::int64_t bytes_moved() const {
    std::int64_t bytes = part_bytes(Usage::rowwise);
    if (columnwise_) bytes += part_bytes(Usage::columnwise);
    for (const Tensor& tensor : {x_, dy_, gamma_, beta_, mu_, rsigma_, dbias_}) {
      if (tensor.defined()) bytes += tensor.nbytes();
    }
    return bytes;
  }

 private:
  bool is_layernorm() const { return op_.norm_type == NormType::layernorm; }
  std::int64_t parts_of_x() const {
    return op_.kind == Kind::cast || op_.kind == Kind::norm ? 1 : op_.activation.count();
  }
  std::int64_t parts_of_y() const {
    return op_.kind == Kind::activation_backward ? op_.activation.count() : 1;
  }

  static Input input(const Tensor& tensor) {
    return {.data = tensor.data(), .dtype = tensor.dtype()};
  }

  std::int64_t part_bytes(Usage usage) const {
    const QuantizedPart& part = y_.operand(usage);
    return part.data.nbytes() + part.scale_inv.nbytes();
  }

  BlockPart block_part(Usage usage) {
    const QuantizedPart& part = y_.operand(usage);
    Tensor data = part.data;
    Tensor scale_inv = part.scale_inv;
    Tensor tensor_scale_inv = part.tensor_scale_inv;
    return {.data = data.mutable_data(),
            .scale_inv = scale_inv.mutable_data(),
            .amax = static_cast<const Amax*>(known_amax_.data()),
            .tensor_scale_inv = tensor_scale_inv.defined()
                                    ? static_cast<ScaleInv*>(tensor_scale_inv.mutable_data())
                                    : nullptr};
  }

  void point_output() {
    const QuantizedPart& part = y_.rowwise();
    if (!is_block_scaled(part.scaling_mode)) {
      Tensor data = part.data;
      output_ = {.data = data.mutable_data(),
                 .dtype = data.dtype(),
                 .scale = static_cast<const Scale*>(scale_.data()),
                 .amax = static_cast<Amax*>(amax_.mutable_data())};
      return;
    }
    blocks_ = {.scaling_mode = part.scaling_mode,
               .dtype = part.data.dtype(),
               .hadamard = columnwise_ && y_.columnwise().hadamard,
               .rowwise = block_part(Usage::rowwise)};
    if (columnwise_) blocks_.columnwise = block_part(Usage::columnwise);
    output_ = {.blocks = &blocks_};
  }

  FusedOp op_;
  Size size_;
  Tensor x_, dy_, gamma_, beta_, mu_, rsigma_, dbias_;
  QuantizedTensor y_;
  bool columnwise_ = false;
  Tensor scale_, amax_, known_amax_;
  BlockOutput blocks_;
  Output output_;
};

std::string name_of(const FusedOp& op, const Target& target, const Size& size, const Place& place) {
  std::string name = fmt::format("{}/{}/", op.name, to_string(kType));
  if (!target.name.empty()) {
    name += fmt::format("{}/{}/", target.name, target.columnwise ? "both" : "rowwise");
  }
  return name + fmt::format("{}x{}/{}", size.rows, size.cols, place.suffix());
}

Figure fused_figure(const FusedOp& op, const Target& target, const Size& size, const Place& place) {
  const std::string name = name_of(op, target, size, place);
  return {name, false, [=](double seconds) {
            place.enter();
            const auto call = std::make_shared<FusedCall>(op, target, size, place.device);
            const std::int64_t bytes = call->bytes_moved();
            const Subject subject{.call = [call] { call->run(); },
                                  .work = static_cast<double>(bytes),
                                  .unit = Unit::gb_per_s,
                                  .finish = place.finish()};
            return measure_against(name, subject, copy_bandwidth(bytes, place), seconds);
          }};
}

}  // namespace

std::vector<Figure> fused_figures(const std::vector<Place>& places) {
  std::vector<Figure> figures;
  const auto append = [&](const FusedOp& op, const Target& target, const Size& size) {
    for (const Place& place : places) figures.push_back(fused_figure(op, target, size, place));
  };
  for (const FusedOp& op : fused_ops()) {
    for (Target target : targets()) {
      append(op, target, kInCache);
      if (!target.columnwise) append(op, target, kFromMemory);
      if (!target.columnwise || op.kind != Kind::cast) continue;
      target.columnwise = false;
      append(op, target, kInCache);
    }
  }
  return figures;
}

}  // namespace tape8::tools::bench
