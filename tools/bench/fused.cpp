#include "bench/fused.hpp"

#include <array>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include <tape8/tape8.hpp>

#include "backend/backend.hpp"

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

std::vector<Target> targets() {
  return {{""},
          {"mxfp8/rowwise", MXFP8BlockScaling{}, false},
          {"mxfp8/both", MXFP8BlockScaling{}, true},
          {"float8_block/rowwise", Float8BlockScaling{}, false},
          {"float8_block/both", Float8BlockScaling{}, true},
          {"nvfp4/rowwise", NVFP4BlockScaling{}, false},
          {"nvfp4/both", NVFP4BlockScaling{}, true}};
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
  FusedCall(const FusedOp& op, const Target& target, const Size& size) : op_(op), size_(size) {
    Rng rng{1};
    x_ = rng.normal({size.rows, size.cols * parts_of_x()}, 0.0F, 1.0F, kType);
    if (op.kind == Kind::activation_backward) {
      dy_ = rng.normal({size.rows, size.cols}, 0.0F, 1.0F, kType);
    }
    if (op.kind == Kind::norm) {
      gamma_ = rng.normal({size.cols}, 1.0F, 0.1F);
      beta_ = rng.normal({size.cols}, 0.0F, 0.1F);
      mu_ = Tensor::zeros({size.rows});
      rsigma_ = Tensor::zeros({size.rows});
    }
    const std::int64_t y_cols = size.cols * parts_of_y();
    if (op.dbias) dbias_ = Tensor::zeros({y_cols});
    // A cast of zeros is of the form of any other.
    y_ = make_quantizer(target.recipe, TensorRole::x)
             .quantize(Tensor::zeros({size.rows, y_cols}, kType));
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
            .amax = &known_amax_,
            .tensor_scale_inv = tensor_scale_inv.defined()
                                    ? static_cast<ScaleInv*>(tensor_scale_inv.mutable_data())
                                    : nullptr};
  }

  void point_output() {
    const QuantizedPart& part = y_.rowwise();
    if (!is_block_scaled(part.scaling_mode)) {
      Tensor data = part.data;
      output_ = {
          .data = data.mutable_data(), .dtype = data.dtype(), .scale = &scale_, .amax = &amax_};
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
  Scale scale_{16.0F};
  Amax amax_;
  Amax known_amax_{6.0F};
  BlockOutput blocks_;
  Output output_;
};

Figure fused_figure(const FusedOp& op, const Target& target, const Size& size, int threads) {
  const std::string name =
      fmt::format("{}/{}{}{}/{}x{}/{}", op.name, to_string(kType), target.name.empty() ? "" : "/",
                  target.name, size.rows, size.cols, threads_suffix(threads));
  return {name, [=](double seconds) {
            set_num_threads(threads);
            const auto call = std::make_shared<FusedCall>(op, target, size);
            const std::int64_t bytes = call->bytes_moved();
            const Subject subject{.call = [call] { call->run(); },
                                  .work = static_cast<double>(bytes),
                                  .unit = Unit::gb_per_s};
            return measure_against(name, subject, copy_bandwidth(bytes, threads), seconds);
          }};
}

}  // namespace

std::vector<Figure> fused_figures(const std::vector<int>& threads) {
  std::vector<Figure> figures;
  for (const FusedOp& op : fused_ops()) {
    for (const Target& target : targets()) {
      const bool in_blocks = !target.name.empty();
      for (const Size& size : {kInCache, kFromMemory}) {
        if (in_blocks && size.rows == kFromMemory.rows) continue;
        for (const int count : threads) figures.push_back(fused_figure(op, target, size, count));
      }
    }
  }
  return figures;
}

}  // namespace tape8::tools::bench
