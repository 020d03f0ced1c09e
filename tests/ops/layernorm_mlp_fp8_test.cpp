#include <array>
#include <vector>

#include <doctest/doctest.h>

#include "support/activation_reference.hpp"
#include "support/block_decode.hpp"
#include "support/expect.hpp"
#include "support/mlp_case.hpp"
#include "support/passes.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::composed_mlp;
using test::fused_mlp;
using test::MlpCase;
using test::Ran;
using test::Values;
using test::values_of;

std::vector<Recipe> recipes() {
  return {DelayedScaling{.amax_history_len = 3},
          CurrentScaling{},
          MXFP8BlockScaling{},
          Float8BlockScaling{},
          NVFP4BlockScaling{},
          NVFP4BlockScaling{.kernel_2d_blocks = false, .hadamard_transform = false}};
}

using Sets = std::array<QuantizerSet, 2>;

Sets make_sets(const Recipe& recipe) {
  return {make_quantizer_set(recipe), make_quantizer_set(recipe)};
}

Sets clone(const Sets& sets) { return {sets[0].clone(), sets[1].clone()}; }

/// Two passes, so that delayed scales are not 1.
template <class Op>
Ran run_twice(const std::vector<Tensor>& inputs, const Op& op) {
  (void)test::run(inputs, op, 31);
  return test::run(inputs, op, 32);
}

TEST_CASE("layernorm_mlp fp8: in f32 it equals its composition, but for the order of one sum") {
  for (const Recipe& recipe : recipes()) {
    for (const ActivationType& type : {gelu, swiglu}) {
      const std::string name(to_string(recipe));
      CAPTURE(name);
      const MlpCase c{.rows = 70, .hidden = 48, .intermediate = 40};
      const Sets sets = make_sets(recipe);
      const LayerNormMLPOptions options{.activation_type = type, .quantizer_sets = sets};
      const LayerNormMLPOptions same{.activation_type = type, .quantizer_sets = clone(sets)};
      const Ran fused = run_twice(
          c.inputs(type), [&](const std::vector<Variable>& v) { return fused_mlp(v, options); });
      const Ran composed = run_twice(
          c.inputs(type), [&](const std::vector<Variable>& v) { return composed_mlp(v, same); });
      CHECK(bytes_of(fused.y) == bytes_of(composed.y));
      for (std::size_t i = 0; i < fused.gradients.size(); ++i) {
        CAPTURE(i);
        if (i == 5) {
          test::check_close(fused.gradients[i], values_of(composed.gradients[i]));
        } else {
          CHECK(bytes_of(fused.gradients[i]) == bytes_of(composed.gradients[i]));
        }
      }
    }
  }
}

TEST_CASE("layernorm_mlp fp8: each matmul's dgrad quantizer casts the gradient of its own result") {
  const MlpCase c{.rows = 20, .hidden = 24, .intermediate = 16};
  const Sets sets = make_sets(DelayedScaling{.amax_history_len = 2});
  const std::vector<Tensor> inputs = c.inputs(gelu);
  const Ran ran = test::run(inputs, [&](const std::vector<Variable>& v) {
    return fused_mlp(v, {.quantizer_sets = sets});
  });
  const auto newest = [](const Quantizer& q) { return q.amax_history().back(); };
  CHECK(newest(sets[1].dgrad) == static_cast<float>(test::largest_magnitude(values_of(ran.dy))));
  // The gradient of the first result, from the composition in high precision on the same casts:
  // dy of the first pass is cast with scale 1.
  const Variable z =
      parameter(layernorm_dense(inputs[0], inputs[3], inputs[1], inputs[2], inputs[5],
                                {.quantizer_set = make_sets(DelayedScaling{})[0]})
                    .tensor());
  Tape tape;
  const Variable y = dense(activation(z, gelu), inputs[4], inputs[6],
                           {.quantizer_set = make_sets(DelayedScaling{})[1]});
  tape.backward(y, ran.dy);
  const double expected = test::largest_magnitude(values_of(z.grad()));
  CHECK(std::abs(newest(sets[0].dgrad) - expected) < 1e-6 * expected);
  CHECK(newest(sets[0].dgrad) != newest(sets[1].dgrad));
}

TEST_CASE("layernorm_mlp fp8: bias_1's gradient is summed before the cast") {
  // Casting makes zeros of gradients far below the largest, which the sum must still hold.
  const Sets sets = make_sets(CurrentScaling{.power_of_2_scale = true});
  const Variable x = Tensor::from({1.0F, -1.0F, 1.0F, -1.0F}, {2, 2});
  const Variable gamma = Tensor::full({2}, 1.0);
  const Variable kernel_1 = Tensor::from({0.0F, 0.0F, 0.0F, 0.0F}, {2, 2});
  const Variable bias_1 = parameter(Tensor::from({1.0F, 1.0F}, {2}));
  const Variable kernel_2 = Tensor::from({1.0F, 0.0F, 0.0F, 1.0F}, {2, 2});
  Tape tape;
  const Variable y = layernorm_mlp(x, gamma, {}, {kernel_1, kernel_2}, {bias_1, Variable{}},
                                   {.activation_type = linear, .quantizer_sets = sets});
  tape.backward(y, Tensor::from({57344.0F, 0x1p-15F, 57344.0F, 0x1p-15F}, {2, 2}));
  // 2^-15 is a subnormal of e5m2 that its cast keeps; 2 * 2^-15 comes out only if nothing was lost.
  CHECK(bias_1.grad().to_vector<float>() == std::vector<float>{2.0F * 57344.0F, 0x1p-14F});
}

TEST_CASE("layernorm_mlp: remade casts give the same bits from less memory") {
  std::vector<Recipe> all = recipes();
  all.insert(all.begin(), HighPrecision{});
  for (const Recipe& recipe : all) {
    for (const BackwardOverride which : {BackwardOverride::none, BackwardOverride::dequantized,
                                         BackwardOverride::high_precision}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const std::string name(to_string(recipe));
        CAPTURE(name);
        CAPTURE(static_cast<int>(which));
        CAPTURE(to_string(dtype));
        const MlpCase c{.rows = 70, .hidden = 48, .intermediate = 40, .dtype = dtype};
        Sets sets = make_sets(recipe);
        for (QuantizerSet& set : sets) set.backward_override = which;
        const Sets same = clone(sets);
        std::array<std::int64_t, 2> bytes{};
        const auto op = [&](bool remake) {
          return [&, remake](const std::vector<Variable>& v) {
            Variable y = fused_mlp(v, {.activation_type = swiglu,
                                       .quantizer_sets = remake ? same : sets,
                                       .remake_casts = remake});
            bytes[remake ? 1 : 0] = Tape::current()->saved_for_backward_bytes();
            return y;
          };
        };
        const Ran kept = run_twice(c.inputs(swiglu), op(false));
        const Ran remade = run_twice(c.inputs(swiglu), op(true));
        CHECK(bytes_of(kept.y) == bytes_of(remade.y));
        for (std::size_t i = 0; i < kept.gradients.size(); ++i) {
          CHECK(bytes_of(kept.gradients[i]) == bytes_of(remade.gradients[i]));
        }
        if (which == BackwardOverride::high_precision) {
          CHECK(bytes[1] == bytes[0]);
        } else {
          CHECK(bytes[1] < bytes[0]);
        }
        if (std::holds_alternative<DelayedScaling>(recipe)) {
          for (std::size_t i = 0; i < 2; ++i) {
            CHECK(sets[i].x.amax_history() == same[i].x.amax_history());
            CHECK(sets[i].x.scale() == same[i].x.scale());
          }
        }
      }
    }
  }
}

TEST_CASE("layernorm_mlp: a cast that was rounded at random is kept, as it cannot be remade") {
  const MlpCase c{.rows = 40, .hidden = 48, .intermediate = 40};
  Sets sets = make_sets(NVFP4BlockScaling{});
  for (QuantizerSet& set : sets) set.x = make_quantizer(NVFP4BlockScaling{}, TensorRole::dgrad);
  const Sets same = clone(sets);
  const auto gradients = [&](const Sets& of, bool remake) {
    return test::run(c.inputs(gelu),
                     [&](const std::vector<Variable>& v) {
                       return fused_mlp(v, {.quantizer_sets = of, .remake_casts = remake});
                     })
        .gradients;
  };
  const auto kept = gradients(sets, false);
  const auto remade = gradients(same, true);
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(bytes_of(kept[i]) == bytes_of(remade[i]));
}

TEST_CASE("layernorm_mlp: remade casts use the scales of their forward pass") {
  // Another tape's backward moves the scales in between.
  const MlpCase c{};
  const std::vector<Tensor> inputs = c.inputs(gelu);
  const auto gradients = [&](bool remake) {
    const LayerNormMLPOptions options{
        .quantizer_sets = make_sets(DelayedScaling{.amax_history_len = 2}), .remake_casts = remake};
    std::vector<Variable> v;
    for (const Tensor& input : inputs) v.push_back(parameter(input));
    Tape outer;
    const Variable y = fused_mlp(v, options);
    (void)test::run(inputs, [&](const std::vector<Variable>& w) { return fused_mlp(w, options); });
    CHECK(options.quantizer_sets[0].x.scale() != Scale{1.0F});
    outer.backward(y, test::random_tensor(y.shape(), 5), {.retain = true});
    outer.backward(y, test::random_tensor(y.shape(), 5));
    std::vector<std::vector<std::uint8_t>> bytes;
    for (const Variable& variable : v) bytes.push_back(bytes_of(variable.grad()));
    const std::vector<float> history = options.quantizer_sets[1].x.amax_history();
    bytes.emplace_back();
    for (const float amax : history) bytes.back().push_back(amax > 0.0F ? 1 : 0);
    return bytes;
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("layernorm_mlp fp8: what backward keeps") {
  const auto bytes = [](const Recipe& recipe, const ActivationType& type, bool remake) {
    const MlpCase c{.rows = 128, .hidden = 64, .intermediate = 256, .dtype = DType::bf16};
    std::vector<Variable> v;
    for (const Tensor& input : c.inputs(type))
      v.push_back(input.defined() ? parameter(input) : Variable{});
    v[0] = Variable(v[0].tensor());
    Tape tape;
    (void)fused_mlp(
        v, {.activation_type = type, .quantizer_sets = make_sets(recipe), .remake_casts = remake});
    return tape.saved_for_backward_bytes();
  };
  constexpr std::int64_t kX = 128 * 64, kZ = 128 * 256, kStatistics = 2 * 128 * 4;
  const std::int64_t least = 2 * kX + 2 * kZ + kStatistics;
  CHECK(bytes(HighPrecision{}, gelu, false) == least + 2 * (kX + kZ));
  CHECK(bytes(DelayedScaling{}, gelu, false) == least + kX + kZ + 2 * 4);
  CHECK(bytes(DelayedScaling{}, gelu, true) == least);
  CHECK(bytes(DelayedScaling{}, swiglu, false) == least + 2 * kZ + kX + kZ + 2 * 4);
  CHECK(bytes(MXFP8BlockScaling{}, gelu, false) == least + (kX + kZ) * 33 / 32);
  CHECK(bytes(NVFP4BlockScaling{}, gelu, false) == least + (kX + kZ) * 9 / 16 + 2 * 4);
}

}  // namespace
}  // namespace tape8
