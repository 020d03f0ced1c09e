#include <vector>

#include <doctest/doctest.h>

#include <tape8/nn/dense.hpp>
#include <tape8/nn/layernorm_dense.hpp>
#include <tape8/nn/layernorm_mlp.hpp>
#include <tape8/nn/parameters.hpp>
#include <tape8/ops/activation.hpp>
#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm_dense.hpp>

#include "support/expect.hpp"
#include "support/passes.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::Values;
using test::values_of;

std::int64_t count(const std::vector<Variable>& parameters) {
  std::int64_t total = 0;
  for (const Variable& p : parameters) total += p.tensor().numel();
  return total;
}

TEST_CASE("modules: Dense") {
  Rng rng(1);
  const Dense layer{{.in_features = 20, .out_features = 7}, rng};
  CHECK(layer.kernel().shape() == Shape{20, 7});
  CHECK(layer.bias().shape() == Shape{7});
  CHECK(values_of(layer.bias().tensor()) == Values(7, 0.0));
  CHECK(layer.parameters().size() == 2);
  CHECK(count(layer.parameters()) == 147);
  CHECK_FALSE(layer.quantizer_set().x.defined());
  for (const Variable& p : layer.parameters()) CHECK((p.is_leaf() && p.requires_grad()));
  const Tensor x = test::random_tensor({2, 3, 20}, 2);
  CHECK(layer(x).shape() == Shape{2, 3, 7});
  CHECK(bytes_of(layer(x).tensor()) == bytes_of(dense(x, layer.kernel(), layer.bias()).tensor()));

  const Dense plain{{.in_features = 20, .out_features = 7, .use_bias = false}, rng};
  CHECK_FALSE(plain.bias().defined());
  CHECK(plain.parameters().size() == 1);
}

TEST_CASE("modules: LayerNormDense") {
  Rng rng(1);
  for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
    for (const bool zero_centered : {false, true}) {
      CAPTURE(to_string(type));
      CAPTURE(zero_centered);
      const LayerNormDense layer{{.in_features = 20,
                                  .out_features = 7,
                                  .norm_type = type,
                                  .zero_centered_gamma = zero_centered,
                                  .epsilon = 1e-3F},
                                 rng};
      const bool has_beta = type == NormType::layernorm;
      CHECK(layer.beta().defined() == has_beta);
      CHECK(values_of(layer.gamma().tensor()) == Values(20, zero_centered ? 0.0 : 1.0));
      if (has_beta) CHECK(values_of(layer.beta().tensor()) == Values(20, 0.0));
      CHECK(count(layer.parameters()) == 140 + 7 + (has_beta ? 40 : 20));
      const Tensor x = test::random_tensor({5, 20}, 2);
      const Variable expected = layernorm_dense(
          x, layer.kernel(), layer.gamma(), layer.beta(), layer.bias(),
          {.norm_type = type, .zero_centered_gamma = zero_centered, .epsilon = 1e-3F});
      CHECK(bytes_of(layer(x).tensor()) == bytes_of(expected.tensor()));
    }
  }
}

TEST_CASE("modules: LayerNormMLP") {
  struct Row {
    ActivationType type;
    std::int64_t parameters;
  };
  for (const Row& row : {Row{gelu, 128 + 64 * 256 + 256 + 256 * 64 + 64},
                         Row{swiglu, 128 + 64 * 512 + 512 + 256 * 64 + 64}}) {
    Rng rng(1);
    CAPTURE(to_string(row.type));
    const LayerNormMLP mlp{{.hidden = 64, .intermediate = 256, .activation_type = row.type}, rng};
    CHECK(count(mlp.parameters()) == row.parameters);
    CHECK(mlp.dense_1().kernel().shape() == Shape{64, 256 * row.type.count()});
    CHECK(mlp.dense_2().kernel().shape() == Shape{256, 64});
    const Tensor x = test::random_tensor({3, 64}, 2);
    CHECK(mlp(x).shape() == Shape{3, 64});
    CHECK(bytes_of(mlp(x).tensor()) ==
          bytes_of(mlp.dense_2()(activation(mlp.dense_1()(x), row.type)).tensor()));
  }
}

TEST_CASE("modules: the clamp's numbers reach the activation") {
  const auto result = [](float limit) {
    Rng rng(1);
    const LayerNormMLP mlp{{.hidden = 8,
                            .intermediate = 16,
                            .activation_type = clamped_swiglu,
                            .activation_params = {.clamped_swiglu = {.limit = limit}}},
                           rng};
    return bytes_of(mlp(test::random_tensor({3, 8}, 2)).tensor());
  };
  CHECK(result(0.1F) != result(7.0F));
}

TEST_CASE("modules: parameters have the dtype asked for, results x's") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Rng rng(1);
    const LayerNormMLP mlp{{.hidden = 8, .intermediate = 16, .dtype = dtype}, rng};
    for (const Variable& p : mlp.parameters()) CHECK(p.dtype() == dtype);
    for (const DType x : {DType::f32, DType::bf16}) {
      CHECK(mlp(test::random_tensor({3, 8}, 2, x)).dtype() == x);
    }
  }
  // bf16 parameters are the f32 ones, rounded.
  Rng a(1);
  Rng b(1);
  const Dense wide{{.in_features = 9, .out_features = 5}, a};
  const Dense narrow{{.in_features = 9, .out_features = 5, .dtype = DType::bf16}, b};
  CHECK(bytes_of(narrow.kernel().tensor()) == bytes_of(wide.kernel().tensor().to(DType::bf16)));
}

TEST_CASE("modules: a recipe makes the quantizers of each matmul its own") {
  Rng rng(1);
  const LayerNormMLP mlp{
      {.hidden = 8, .intermediate = 16, .recipe = DelayedScaling{.amax_history_len = 4}}, rng};
  const QuantizerSet& first = mlp.dense_1().quantizer_set();
  const QuantizerSet& second = mlp.dense_2().quantizer_set();
  const std::vector<Quantizer> all{first.x,  first.kernel,  first.dgrad,
                                   second.x, second.kernel, second.dgrad};
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].defined());
    for (std::size_t k = 0; k < i; ++k) CHECK(all[i] != all[k]);
  }
  Tape tape;
  const Variable y = mlp(test::random_tensor({3, 8}, 2));
  tape.backward(y, test::random_tensor({3, 8}, 3));
  for (const Quantizer& q : all) {
    CHECK(q.scale() != Scale{1.0F});
    CHECK(q.amax_history()[3] > 0.0F);
  }
}

TEST_CASE("modules: the same seed makes the same module, another a different one") {
  const auto kernel = [](std::uint64_t seed) {
    Rng rng(seed);
    const LayerNormMLP mlp{{.hidden = 8, .intermediate = 16}, rng};
    return bytes_of(mlp.dense_1().kernel().tensor());
  };
  CHECK(kernel(3) == kernel(3));
  CHECK(kernel(3) != kernel(4));
  Rng rng(3);
  const LayerNormMLP mlp{{.hidden = 16, .intermediate = 16}, rng};
  CHECK(bytes_of(mlp.dense_1().kernel().tensor()) != bytes_of(mlp.dense_2().kernel().tensor()));
}

TEST_CASE("modules: initializers are the config's") {
  Rng rng(1);
  const Dense layer{{.in_features = 3,
                     .out_features = 2,
                     .kernel_init = constant(0.5F),
                     .bias_init = constant(-1.0F)},
                    rng};
  CHECK(values_of(layer.kernel().tensor()) == Values(6, 0.5));
  CHECK(values_of(layer.bias().tensor()) == Values(2, -1.0));
}

struct Pair {
  Variable a, b;
  std::vector<Variable> parameters() const { return {a, b}; }
};

TEST_CASE("modules: parameters() of several, one's own class among them, in order") {
  Rng rng(1);
  const Dense head{{.in_features = 3, .out_features = 2}, rng};
  const Pair own{parameter(Tensor::zeros({1}), "a"), parameter(Tensor::zeros({1}), "b")};
  const std::vector<Variable> all = parameters(own, head);
  REQUIRE(all.size() == 4);
  CHECK(all[0].name() == "a");
  CHECK(all[1].name() == "b");
  CHECK(all[2].state() == head.kernel().state());
  CHECK(all[3].state() == head.bias().state());
}

TEST_CASE("modules: sizes below 1, and recipes out of range") {
  Rng rng(1);
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-4}}) {
    CAPTURE(bad);
    CHECK_THROWS_AS((Dense{{.in_features = bad, .out_features = 2}, rng}), OptionError);
    CHECK_THROWS_AS((Dense{{.in_features = 2, .out_features = bad}, rng}), OptionError);
    CHECK_THROWS_AS((LayerNormDense{{.in_features = bad, .out_features = 2}, rng}), OptionError);
    CHECK_THROWS_AS((LayerNormDense{{.in_features = 2, .out_features = bad}, rng}), OptionError);
    CHECK_THROWS_AS((LayerNormMLP{{.hidden = bad, .intermediate = 2}, rng}), OptionError);
    CHECK_THROWS_AS((LayerNormMLP{{.hidden = 2, .intermediate = bad}, rng}), OptionError);
  }
  test::check_throws<OptionError>(
      "dense", [&] { Dense({.in_features = 0, .out_features = 2}, rng); }, {"in_features", "0"});
  test::check_throws<OptionError>("layernorm_mlp",
                                  [&] { LayerNormMLP({.hidden = 4, .intermediate = -1}, rng); },
                                  {"intermediate", "-1"});
  const DelayedScaling recipe{.amax_history_len = 0};
  CHECK_THROWS_AS((Dense{{.in_features = 2, .out_features = 2, .recipe = recipe}, rng}),
                  OptionError);
}

TEST_CASE("modules: an x of another width is refused by name") {
  Rng rng(1);
  const Dense layer{{.in_features = 20, .out_features = 7}, rng};
  test::check_throws<ShapeError>("dense", [&] { layer(Tensor::zeros({2, 19})); }, {"20", "19"});
}

TEST_CASE("modules: initializers and sizes that cannot be") {
  Rng rng{1};
  const auto made = [&](const DenseConfig& config) {
    return [&rng, config] { Dense(config, rng); };
  };
  test::check_throws<OptionError>(
      "dense", made({.in_features = 2, .out_features = 2, .kernel_init = Initializer{}}),
      {"kernel"});
  test::check_throws<ShapeError>(
      "dense",
      made({.in_features = 2,
            .out_features = 2,
            .bias_init = [](const Shape&, Rng&) { return Tensor::zeros({5}); }}),
      {"bias", "(5)"});
  test::check_throws<OptionError>(
      "layernorm_mlp",
      [&] {
        LayerNormMLP({.hidden = 2, .intermediate = INT64_MAX, .activation_type = swiglu}, rng);
      },
      {"intermediate"});
  const std::uint64_t before = rng.position();
  test::check_throws<DTypeError>(
      "dense", made({.in_features = 2, .out_features = 2, .dtype = DType::i32}), {"i32"});
  CHECK(rng.position() == before);
}

}  // namespace
}  // namespace tape8
