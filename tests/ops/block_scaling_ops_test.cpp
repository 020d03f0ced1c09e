#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm.hpp>
#include <tape8/ops/layernorm_dense.hpp>

#include "support/block_decode.hpp"
#include "support/expect.hpp"
#include "support/matrix.hpp"
#include "support/norm_reference.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::decode_operand;
using test::Operand;
using test::Ran;
using test::Values;
using test::values_of;

std::vector<Recipe> block_recipes() {
  return {MXFP8BlockScaling{},
          MXFP8BlockScaling{.format = Fp8Format::hybrid},
          Float8BlockScaling{},
          Float8BlockScaling{.format = Fp8Format::hybrid, .power_of_2_scale = false},
          NVFP4BlockScaling{},
          NVFP4BlockScaling{.kernel_2d_blocks = false},
          NVFP4BlockScaling{.hadamard_transform = false},
          NVFP4BlockScaling{.stochastic_rounding = false}};
}

/// y and the gradients of a dense in float64 on what its matmuls read: casts by clones of the
/// quantizers.
struct BlockReference {
  Values y, dx, dkernel, dbias;

  BlockReference(const QuantizerSet& set, const Tensor& x, const Tensor& kernel, const Values& bias,
                 const Tensor& dy, std::int64_t rows, std::int64_t in, std::int64_t out) {
    const QuantizedTensor x_cast = set.x.quantize(x);
    const QuantizedTensor kernel_cast = set.kernel.quantize(kernel, 1);
    const QuantizedTensor dy_cast = set.dgrad.quantize(dy);
    const auto read = [](const QuantizedTensor& cast, Usage usage, std::int64_t r, std::int64_t c) {
      return decode_operand(cast, usage, r, c);
    };
    y = test::matmul(read(x_cast, Usage::rowwise, rows, in).values,
                     read(kernel_cast, Usage::columnwise, in, out).values, rows, in, out);
    if (!bias.empty()) test::add_to_rows(y, bias);
    dx = test::matmul(read(dy_cast, Usage::rowwise, rows, out).values,
                      test::transposed(read(kernel_cast, Usage::rowwise, in, out).values, in, out),
                      rows, out, in);
    const Operand left = read(x_cast, Usage::columnwise, rows, in);
    const Operand right = read(dy_cast, Usage::columnwise, rows, out);
    dkernel = test::matmul(test::transposed(left.values, left.rows, in), right.values, in,
                           left.rows, out);
    dbias = test::column_sums(values_of(dy), rows, out);
  }
};

void check_dense(const Recipe& recipe, std::int64_t rows, std::int64_t in, std::int64_t out,
                 DType dtype) {
  const std::string name(to_string(recipe));
  CAPTURE(name);
  CAPTURE(rows);
  CAPTURE(in);
  CAPTURE(out);
  CAPTURE(to_string(dtype));
  // Blocks of very different size, which one scale for the tensor could not serve.
  Values values = test::random_values(rows * in, 1);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= i / 40 % 2 == 0 ? 1.0 : 1e-3;
  const Tensor x = Tensor::from(values, {rows, in}, dtype);
  const Tensor kernel = test::random_tensor({in, out}, 2);
  const Tensor bias = test::random_tensor({out}, 3);
  const QuantizerSet set = make_quantizer_set(recipe);
  const QuantizerSet before = set.clone();
  const Ran ran = test::run({x, kernel, bias}, [&](const std::vector<Variable>& v) {
    return dense(v[0], v[1], v[2], {.quantizer_set = set});
  });
  const BlockReference expected(before, x, kernel, values_of(bias), ran.dy, rows, in, out);
  check_close(ran.y, expected.y);
  check_close(ran.gradients[0], expected.dx);
  check_close(ran.gradients[1], expected.dkernel);
  check_close(ran.gradients[2], expected.dbias);
  // It did quantize: the result differs from that of the values themselves.
  Values plain = test::matmul(values_of(x), values_of(kernel), rows, in, out);
  test::add_to_rows(plain, values_of(bias));
  CHECK(test::relative_error(values_of(ran.y), plain) > 1e-3);
}

TEST_CASE("block scaling: dense against float64 on the same casts") {
  for (const Recipe& recipe : block_recipes()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      check_dense(recipe, 32, 128, 64, dtype);
      check_dense(recipe, 33, 130, 17, dtype);
    }
    check_dense(recipe, 1, 256, 10, DType::bf16);
    check_dense(recipe, 7, 5, 3, DType::f32);
    check_dense(recipe, 150, 31, 140, DType::f32);
  }
}

TEST_CASE("block scaling: kernels with several axes, contracted with several of x") {
  for (const Recipe& recipe : block_recipes()) {
    const std::string name(to_string(recipe));
    CAPTURE(name);
    const QuantizerSet set = make_quantizer_set(recipe);
    const QuantizerSet same = set.clone();
    const std::vector<Tensor> flat{test::random_tensor({6, 40}, 1),
                                   test::random_tensor({40, 12}, 2), test::random_tensor({12}, 3)};
    const Ran plain = test::run(flat, [&](const std::vector<Variable>& v) {
      return dense(v[0], v[1], v[2], {.quantizer_set = set});
    });
    const Ran folded = test::run(
        {flat[0].reshape({2, 3, 8, 5}), flat[1].reshape({8, 5, 3, 4}), flat[2].reshape({3, 4})},
        [&](const std::vector<Variable>& v) {
          return dense(v[0], v[1], v[2],
                       {.contracting_dims = {{-2, -1}, {0, 1}}, .quantizer_set = same});
        });
    CHECK(test::bytes_of(folded.y) == test::bytes_of(plain.y));
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(test::bytes_of(folded.gradients[i]) == test::bytes_of(plain.gradients[i]));
    }
  }
}

TEST_CASE("block scaling: layernorm_dense equals the norm and then dense in f32") {
  // The norm's result in f32 is what the fused cast reads, so all but the sums' order agrees.
  for (const Recipe& recipe : block_recipes()) {
    for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
      const std::string name(to_string(recipe));
      CAPTURE(name);
      const Tensor x = test::random_tensor({35, 72}, 1, DType::f32, -2.0, 3.0);
      const Tensor kernel = test::random_tensor({72, 20}, 2);
      const Tensor gamma = test::random_tensor({72}, 3, DType::f32, 0.5, 1.5);
      const QuantizerSet set = make_quantizer_set(recipe);
      const QuantizerSet same = set.clone();
      const Ran fused = test::run({x, kernel, gamma}, [&](const std::vector<Variable>& v) {
        return layernorm_dense(v[0], v[1], v[2], {}, {}, {.norm_type = type, .quantizer_set = set});
      });
      const Ran composed = test::run({x, kernel, gamma}, [&](const std::vector<Variable>& v) {
        return dense(layernorm(v[0], v[2], {}, {.norm_type = type}), v[1], {},
                     {.quantizer_set = same});
      });
      CHECK(test::bytes_of(fused.y) == test::bytes_of(composed.y));
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(test::bytes_of(fused.gradients[i]) == test::bytes_of(composed.gradients[i]));
      }
    }
  }
}

TEST_CASE("block scaling: roles that are not quantized stay in the compute type") {
  for (const Recipe& recipe : block_recipes()) {
    for (unsigned roles = 1; roles < 8; ++roles) {
      const std::string name(to_string(recipe));
      CAPTURE(name);
      CAPTURE(roles);
      QuantizerSet set = make_quantizer_set(recipe);
      if ((roles & 1U) == 0) set.x = {};
      if ((roles & 2U) == 0) set.kernel = {};
      if ((roles & 4U) == 0) set.dgrad = {};
      const QuantizerSet before = set.clone();
      const Tensor x = test::random_tensor({20, 48}, 1);
      const Tensor kernel = test::random_tensor({48, 10}, 2);
      const Ran ran = test::run({x, kernel}, [&](const std::vector<Variable>& v) {
        return dense(v[0], v[1], {}, {.quantizer_set = set});
      });
      // Without a partner that is transformed, x or dy is not either.
      QuantizerSet reference = before;
      const auto* nvfp4 = std::get_if<NVFP4BlockScaling>(&recipe);
      if (nvfp4 != nullptr && (roles & 5U) != 5U) {
        NVFP4BlockScaling plain = *nvfp4;
        plain.hadamard_transform = false;
        if (before.x) reference.x = make_quantizer(plain, TensorRole::x);
        if (before.dgrad) {
          reference.dgrad = make_quantizer(plain, TensorRole::dgrad);
          if (plain.stochastic_rounding) {
            reference.dgrad.set_random_state(before.dgrad.random_state());
          }
        }
      }
      const BlockReference expected(reference, x, kernel, {}, ran.dy, 20, 48, 10);
      check_close(ran.y, expected.y);
      check_close(ran.gradients[0], expected.dx);
      check_close(ran.gradients[1], expected.dkernel);
    }
  }
}

TEST_CASE("block scaling: with a backward override backward contracts what it says") {
  const Tensor x = test::random_tensor({20, 48}, 1);
  const Tensor kernel = test::random_tensor({48, 10}, 2);
  for (const Recipe& recipe : block_recipes()) {
    for (const BackwardOverride which :
         {BackwardOverride::high_precision, BackwardOverride::dequantized}) {
      const std::string name(to_string(recipe));
      CAPTURE(name);
      QuantizerSet set = make_quantizer_set(recipe);
      set.backward_override = which;
      const Ran ran = test::run({x, kernel}, [&](const std::vector<Variable>& v) {
        return dense(v[0], v[1], {}, {.quantizer_set = set});
      });
      const bool casts = which == BackwardOverride::dequantized;
      const Values left =
          casts ? decode_operand(set.x.quantize(x), Usage::rowwise, 20, 48).values : values_of(x);
      const Values right =
          casts ? decode_operand(set.kernel.quantize(kernel, 1), Usage::columnwise, 48, 10).values
                : values_of(kernel);
      const Values dy = values_of(ran.dy);
      check_close(ran.gradients[0], test::matmul(dy, test::transposed(right, 48, 10), 20, 10, 48));
      check_close(ran.gradients[1], test::matmul(test::transposed(left, 20, 48), dy, 48, 20, 10));
    }
  }
}

TEST_CASE("block scaling: backward keeps one cast, of what wgrad contracts") {
  const auto bytes = [](const Recipe& recipe, bool trains) {
    Variable w = parameter(test::random_tensor({256, 128}, 2));
    w.set_requires_grad(trains);
    const Variable x = parameter(test::random_tensor({128, 256}, 1));
    Tape tape;
    (void)dense(x, w, {}, {.quantizer_set = make_quantizer_set(recipe)});
    return tape.saved_for_backward_bytes();
  };
  constexpr std::int64_t kElements = 128 * 256;
  CHECK(bytes(MXFP8BlockScaling{}, true) == kElements + kElements / 32);
  CHECK(bytes(Float8BlockScaling{}, true) == kElements + kElements / 128 * 4);
  CHECK(bytes(NVFP4BlockScaling{}, true) == kElements / 2 + kElements / 16 + 4);
  CHECK(bytes(MXFP8BlockScaling{}, false) == 0);
  CHECK(bytes(DelayedScaling{}, false) == 0);
}

TEST_CASE("block scaling: stochastic rounding gives each microbatch bits of its own") {
  const QuantizerSet set = make_quantizer_set(NVFP4BlockScaling{});
  const Tensor x = test::random_tensor({64, 32}, 1);
  const Tensor kernel = test::random_tensor({32, 32}, 2);
  const auto gradient = [&](const QuantizerSet& quantizers) {
    return test::bytes_of(test::run({x, kernel}, [&](const std::vector<Variable>& v) {
                            return dense(v[0], v[1], {}, {.quantizer_set = quantizers});
                          }).gradients[0]);
  };
  const QuantizerSet same = set.clone();
  const auto first = gradient(set);
  CHECK(set.dgrad.random_state().casts == 1);
  CHECK(gradient(set) != first);
  CHECK(gradient(same) == first);
  // Nearest rounding has none.
  const QuantizerSet nearest = make_quantizer_set(NVFP4BlockScaling{.stochastic_rounding = false});
  CHECK(gradient(nearest) == gradient(nearest));
}

TEST_CASE("block scaling: a backward that throws takes no random numbers") {
  const QuantizerSet set = make_quantizer_set(NVFP4BlockScaling{});
  const Variable x = parameter(test::random_tensor({4, 32}, 1));
  const Variable kernel = parameter(test::random_tensor({32, 8}, 2));
  const auto refuse = [](const NothingSaved&, Gradients&) { throw StateError("refuse: no"); };
  Tape tape;
  const Variable passed = record("refuse", {x}, x.tensor(), NothingSaved{}, refuse);
  const Variable y = dense(passed, kernel, {}, {.quantizer_set = set});
  CHECK_THROWS_AS(tape.backward(y, test::random_tensor({4, 8}, 3)), StateError);
  CHECK(set.dgrad.random_state().casts == 0);
}

TEST_CASE("block scaling: a kernel in f64 is used in f32") {
  for (const Recipe& recipe : block_recipes()) {
    const QuantizerSet set = make_quantizer_set(recipe);
    const QuantizerSet same = set.clone();
    const Tensor x = test::random_tensor({20, 48}, 1);
    const Tensor kernel = test::random_tensor({48, 10}, 2);
    const auto op = [&](const QuantizerSet& quantizers) {
      return [&](const std::vector<Variable>& v) {
        return dense(v[0], v[1], {}, {.quantizer_set = quantizers});
      };
    };
    const Ran wide = test::run({x, kernel.to(DType::f64)}, op(set));
    const Ran plain = test::run({x, kernel}, op(same));
    CHECK(test::bytes_of(wide.y) == test::bytes_of(plain.y));
    CHECK(wide.gradients[1].dtype() == DType::f64);
    check_close(wide.gradients[1], values_of(plain.gradients[1]), 1e-6);
  }
}

TEST_CASE("block scaling: the bias's gradient does not depend on what else is wanted") {
  std::vector<Recipe> recipes = block_recipes();
  recipes.insert(recipes.end(), {HighPrecision{}, DelayedScaling{}, CurrentScaling{}});
  for (const Recipe& recipe : recipes) {
    for (const std::int64_t rows : {64, 1000, 3000}) {
      const std::string name(to_string(recipe));
      CAPTURE(name);
      CAPTURE(rows);
      const auto bias_gradient = [&](bool others) {
        Variable x = parameter(test::random_tensor({rows, 32}, 1));
        Variable kernel = parameter(test::random_tensor({32, 24}, 2));
        const Variable bias = parameter(test::random_tensor({24}, 3));
        x.set_requires_grad(others);
        kernel.set_requires_grad(others);
        Tape tape;
        const Variable y = dense(x, kernel, bias, {.quantizer_set = make_quantizer_set(recipe)});
        tape.backward(y, test::random_tensor({rows, 24}, 4));
        return test::bytes_of(bias.grad());
      };
      CHECK(bias_gradient(true) == bias_gradient(false));
    }
  }
}

TEST_CASE("block scaling: sets that do not fit together are refused before anything is computed") {
  const Variable x = parameter(test::random_tensor({4, 32}, 1));
  const Variable kernel = parameter(test::random_tensor({32, 8}, 2));
  const auto refused = [&](const QuantizerSet& set, std::initializer_list<std::string_view> parts) {
    Tape tape;
    test::check_throws<OptionError>(
        "dense", [&] { (void)dense(x, kernel, {}, {.quantizer_set = set}); }, parts);
    CHECK(tape.size() == 0);
  };
  QuantizerSet half = make_quantizer_set(NVFP4BlockScaling{});
  half.dgrad = make_quantizer(NVFP4BlockScaling{.hadamard_transform = false}, TensorRole::dgrad);
  refused(half, {"Hadamard", "true and false"});
  half.dgrad = make_quantizer(MXFP8BlockScaling{}, TensorRole::dgrad);
  refused(half, {"Hadamard"});
  QuantizerSet e5m2 = make_quantizer_set(MXFP8BlockScaling{.format = Fp8Format::hybrid});
  e5m2.x = make_quantizer(MXFP8BlockScaling{.format = Fp8Format::hybrid}, TensorRole::dgrad);
  refused(e5m2, {"e5m2"});
  test::check_throws<DTypeError>("dense", [&] {
    (void)dense(x.tensor().to(DType::f64), kernel, {},
                {.quantizer_set = make_quantizer_set(MXFP8BlockScaling{})});
  });
}

TEST_CASE("block scaling: without rows there is nothing but zeros") {
  for (const Recipe& recipe : block_recipes()) {
    const std::string name(to_string(recipe));
    CAPTURE(name);
    const QuantizerSet set = make_quantizer_set(recipe);
    const Ran ran = test::run(
        {Tensor::zeros({0, 128}), test::random_tensor({128, 64}, 1), test::random_tensor({64}, 2)},
        [&](const std::vector<Variable>& v) {
          return dense(v[0], v[1], v[2], {.quantizer_set = set});
        });
    CHECK(ran.y.shape() == Shape{0, 64});
    CHECK(test::largest_magnitude(values_of(ran.gradients[1])) == 0.0);
    CHECK(test::largest_magnitude(values_of(ran.gradients[2])) == 0.0);
  }
}

}  // namespace
}  // namespace tape8
