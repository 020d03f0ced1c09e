#include "bench/block.hpp"

#include <array>

#include <fmt/format.h>

#include <tape8/tape8.hpp>

#include "bench/values.hpp"
#include "recipe_options.hpp"

namespace tape8::tools::bench {
namespace {

struct BlockShape {
  std::int64_t rows = 0, hidden = 0, intermediate = 0;

  /// Of its six matmuls; a gated activation has a first kernel of several parts.
  double flops(int parts) const {
    return 6.0 * static_cast<double>(rows) * static_cast<double>(hidden) *
           static_cast<double>(intermediate) * (parts + 1);
  }
};

constexpr std::array<BlockShape, 2> kShapes{{{2048, 768, 3072}, {128, 512, 2048}}};

/// A block and what one pass over it reads.
struct Block {
  LayerNormMLP mlp;
  Variable x;
  Tensor dy;

  /// As in training, where the optimizer has just changed the weights: casts of them are made anew.
  void forward_backward() {
    std::vector<Variable> leaves = mlp.parameters();
    touch(leaves);
    leaves.push_back(x);
    zero_grads(leaves);
    Tape tape;
    tape.backward(mlp(x), dy);
  }
};

Block make_block(const BlockShape& shape, const ActivationType& activation, std::string_view recipe,
                 const Device& device) {
  const DType dtype = recipe == kFp32 ? DType::f32 : DType::bf16;
  Rng rng{1};
  LayerNormMLP mlp{{.hidden = shape.hidden,
                    .intermediate = shape.intermediate,
                    .activation_type = activation,
                    .recipe = recipe_from({}, recipe, 1),
                    .dtype = dtype,
                    .device = device,
                    .kernel_init = make_kernel},
                   rng};
  const Shape matrix{shape.rows, shape.hidden};
  return {.mlp = std::move(mlp),
          .x = parameter(make_values(matrix, dtype).to(device)),
          .dy = make_values(matrix, dtype).to(device)};
}

Call block_call(const BlockShape& shape, const ActivationType& activation, std::string_view recipe,
                const Device& device) {
  return [block = make_block(shape, activation, recipe, device)]() mutable {
    block.forward_backward();
  };
}

/// On a GPU the same block in bf16.
Probe limit_of(const BlockShape& shape, const ActivationType& activation, std::string_view recipe,
               const Place& place) {
  if (!place.is_cpu()) {
    return {"bf16 block", shape.flops(activation.count()),
            block_call(shape, activation, kBf16, place.device)};
  }
  return recipe == kFp32 ? f32_peak(place.threads) : bf16_dot_peak(place.threads);
}

Figure block_figure(const BlockShape& shape, const ActivationType& activation,
                    std::string_view recipe, const Place& place) {
  const std::string name =
      fmt::format("layernorm_mlp/{}/{}/{}x{}x{}/{}", to_string(activation), recipe, shape.rows,
                  shape.hidden, shape.intermediate, place.suffix());
  return {name, false, [=](double seconds) {
            place.enter();
            const Subject subject{.call = block_call(shape, activation, recipe, place.device),
                                  .work = shape.flops(activation.count()),
                                  .unit = Unit::ms,
                                  .finish = place.finish()};
            return measure_against(name, subject, limit_of(shape, activation, recipe, place),
                                   seconds);
          }};
}

}  // namespace

std::vector<Figure> block_figures(const std::vector<Place>& places) {
  std::vector<Figure> figures;
  for (const ActivationType& activation : {gelu, swiglu}) {
    for (const BlockShape& shape : kShapes) {
      for (const std::string_view recipe : kRecipeNames) {
        for (const Place& place : places) {
          figures.push_back(block_figure(shape, activation, recipe, place));
        }
      }
    }
  }
  return figures;
}

}  // namespace tape8::tools::bench
