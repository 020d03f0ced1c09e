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

Block make_block(const BlockShape& shape, const ActivationType& activation,
                 std::string_view recipe) {
  const DType dtype = recipe == kFp32 ? DType::f32 : DType::bf16;
  Rng rng{1};
  LayerNormMLP mlp{{.hidden = shape.hidden,
                    .intermediate = shape.intermediate,
                    .activation_type = activation,
                    .recipe = recipe_from({}, recipe, 1),
                    .dtype = dtype,
                    .kernel_init = make_kernel},
                   rng};
  const Shape matrix{shape.rows, shape.hidden};
  return {.mlp = std::move(mlp),
          .x = parameter(make_values(matrix, dtype)),
          .dy = make_values(matrix, dtype)};
}

Figure block_figure(const BlockShape& shape, const ActivationType& activation,
                    std::string_view recipe, int threads) {
  const std::string name =
      fmt::format("layernorm_mlp/{}/{}/{}x{}x{}/{}", to_string(activation), recipe, shape.rows,
                  shape.hidden, shape.intermediate, threads_suffix(threads));
  return {name, false, [=](double seconds) {
            set_num_threads(threads);
            const Subject subject{
                .call = [block = make_block(shape, activation,
                                            recipe)]() mutable { block.forward_backward(); },
                .work = shape.flops(activation.count()),
                .unit = Unit::ms};
            const Probe probe = recipe == kFp32 ? f32_peak(threads) : bf16_dot_peak(threads);
            return measure_against(name, subject, probe, seconds);
          }};
}

}  // namespace

std::vector<Figure> block_figures(const std::vector<int>& threads) {
  std::vector<Figure> figures;
  for (const ActivationType& activation : {gelu, swiglu}) {
    for (const BlockShape& shape : kShapes) {
      for (const std::string_view recipe : kRecipeNames) {
        for (const int count : threads) {
          figures.push_back(block_figure(shape, activation, recipe, count));
        }
      }
    }
  }
  return figures;
}

}  // namespace tape8::tools::bench
