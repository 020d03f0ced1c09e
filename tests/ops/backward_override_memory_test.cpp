#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm.hpp>
#include <tape8/ops/layernorm_dense.hpp>

#include "support/check_op.hpp"
#include "support/matrix.hpp"
#include "support/norm_reference.hpp"
#include "support/passes.hpp"
#include "support/quantizer_sets.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::check_close;
using test::operand;
using test::Ran;
using test::Values;
using test::values_of;

constexpr std::int64_t kRows = 16, kIn = 32, kOut = 8;
constexpr BackwardOverride kOverrides[] = {BackwardOverride::none, BackwardOverride::dequantized,
                                           BackwardOverride::high_precision};

QuantizerSet set_with(BackwardOverride override) {
  QuantizerSet set = test::make_set({});
  set.backward_override = override;
  return set;
}

test::Op dense_by(const QuantizerSet& set) {
  return [set](const std::vector<Variable>& in) {
    return dense(in[0], in[1], {}, {.quantizer_set = set});
  };
}

test::Op norm_dense_by(const QuantizerSet& set, NormType norm = NormType::layernorm) {
  return [=](const std::vector<Variable>& in) {
    return layernorm_dense(in[0], in[1], in[2], norm == NormType::layernorm ? in[3] : Variable{},
                           {}, {.norm_type = norm, .quantizer_set = set});
  };
}

/// x, kernel, gamma, beta.
std::vector<Tensor> inputs(DType dtype = DType::f32) {
  return {test::random_tensor({kRows, kIn}, 1, dtype, -2.0, 3.0),
          test::random_tensor({kIn, kOut}, 2), test::random_tensor({kIn}, 3, DType::f32, 0.5, 1.5),
          test::random_tensor({kIn}, 4)};
}

TEST_CASE("backward_override: layernorm_dense against float64 on what it says") {
  for (const BackwardOverride override : kOverrides) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const NormType norm : {NormType::layernorm, NormType::rmsnorm}) {
        CAPTURE(static_cast<int>(override));
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(norm));
        const QuantizerSet set = set_with(override);
        const QuantizerSet before = set.clone();
        const std::vector<Tensor> in = inputs(dtype);
        const bool has_beta = norm == NormType::layernorm;
        std::vector<Tensor> given = in;
        if (!has_beta) given[3] = Tensor{};
        const Ran ran = test::run(given, norm_dense_by(set, norm));
        // The norm by the same kernel, in f32 as it is cast and in x's type as it is kept.
        const auto norm_in = [&](DType type) {
          return values_of(
              layernorm(in[0].to(type), in[2], has_beta ? in[3] : Variable{}, {.norm_type = norm})
                  .tensor());
        };
        const bool high = override == BackwardOverride::high_precision;
        const Values z_cast = operand(norm_in(DType::f32), before.x, DType::f32);
        const Values kernel_cast = operand(values_of(in[1]), before.kernel, dtype);
        const Values dy = values_of(ran.dy);
        const Values dy_used =
            override == BackwardOverride::none ? operand(dy, before.dgrad, dtype) : dy;
        const test::DenseReference forward(z_cast, kernel_cast, {}, dy, dy, kRows, kIn, kOut);
        const test::DenseReference backward(
            high ? norm_in(dtype) : z_cast,
            high ? test::rounded(values_of(in[1]), dtype) : kernel_cast, {}, dy_used, dy, kRows,
            kIn, kOut);
        const test::NormGradients reference =
            test::norm_gradients({norm, static_cast<double>(1e-6F), kRows, kIn}, values_of(in[0]),
                                 values_of(in[2]), backward.dx);
        check_close(ran.y, forward.y);
        // In 16 bits the norm's gradient is rounded on its way, and decoded casts may be.
        const double limit = 2.0 * test::tolerance(dtype);
        check_close(ran.gradients[0], reference.dx, limit);
        check_close(ran.gradients[1], backward.dkernel, limit);
        check_close(ran.gradients[2], reference.dgamma, limit);
        if (has_beta) check_close(ran.gradients[3], reference.dbeta, limit);
        if (override != BackwardOverride::none) {
          CHECK(test::snapshot(set.dgrad) == test::snapshot(before.dgrad));
        }
      }
    }
  }
}

TEST_CASE("backward_override: bytes that dense keeps") {
  const std::vector<Tensor> all = inputs();
  const std::vector<Tensor> in{all[0], all[1]};
  // Casts: a byte an element and a scale each. High precision: both inputs as they were, in f32.
  constexpr std::int64_t kCasts = kRows * kIn + 4 + kIn * kOut + 4;
  CHECK(test::bytes_kept(in, dense_by(set_with(BackwardOverride::none))) == kCasts);
  CHECK(test::bytes_kept(in, dense_by(set_with(BackwardOverride::dequantized))) == kCasts);
  CHECK(test::bytes_kept(in, dense_by(set_with(BackwardOverride::high_precision))) ==
        (kRows * kIn + kIn * kOut) * 4);
  CHECK(test::bytes_kept(in, dense_by({})) == (kRows * kIn + kIn * kOut) * 4);
}

TEST_CASE("backward_override: bytes that layernorm_dense keeps") {
  const std::vector<Tensor> in = inputs();
  constexpr std::int64_t kNorm = kRows * kIn * 4 + 2 * kRows * 4;  // x, mu and rsigma
  constexpr std::int64_t kCasts = kRows * kIn + 4 + kIn * kOut + 4;
  CHECK(test::bytes_kept(in, norm_dense_by(set_with(BackwardOverride::none))) == kNorm + kCasts);
  CHECK(test::bytes_kept(in, norm_dense_by(set_with(BackwardOverride::dequantized))) ==
        kNorm + kCasts);
  // The norm's result is made again from x.
  CHECK(test::bytes_kept(in, norm_dense_by(set_with(BackwardOverride::high_precision))) ==
        kNorm + kIn * kOut * 4);
}

TEST_CASE("backward_override: a backward with retain gives the same bits again") {
  for (const BackwardOverride override : kOverrides) {
    for (const bool with_norm : {false, true}) {
      CAPTURE(static_cast<int>(override));
      CAPTURE(with_norm);
      std::vector<Variable> in;
      for (const Tensor& t : inputs()) in.push_back(parameter(t));
      const QuantizerSet set = set_with(override);
      const test::Op op = with_norm ? norm_dense_by(set) : dense_by(set);
      const std::size_t used = with_norm ? 4 : 2;
      Tape tape;
      const Variable y = op(in);
      const Tensor dy = test::random_tensor(y.shape(), 9);
      std::vector<std::vector<std::uint8_t>> first;
      for (int pass = 0; pass < 3; ++pass) {
        // The scale of dy's cast stays, so that every pass has the same.
        tape.backward(y, dy, {.retain = pass < 2, .advance_quantizers = false});
        for (std::size_t i = 0; i < used; ++i) {
          CAPTURE(i);
          if (pass == 0) {
            first.push_back(bytes_of(in[i].grad()));
          } else {
            CHECK(bytes_of(in[i].grad()) == first[i]);
          }
          in[i].zero_grad();
        }
      }
      test::check_throws<StateError>("backward", [&] { tape.backward(y, dy); });
    }
  }
}

TEST_CASE("backward_override: high precision refuses what was changed in between") {
  const auto changed = [](BackwardOverride override, std::size_t which) {
    std::vector<Variable> in;
    for (const Tensor& t : inputs()) in.push_back(parameter(t));
    const QuantizerSet set = set_with(override);
    return [in, set, which] {
      Tape tape;
      const Variable y = norm_dense_by(set)(in);
      Tensor handle = in[which].tensor();
      handle.fill(0.5);
      tape.backward(y, Tensor::full(y.shape(), 1.0));
    };
  };
  // x and gamma are read by every backward, kernel and beta only when they are not cast.
  for (const BackwardOverride override : kOverrides) {
    for (const std::size_t which : {0U, 1U, 2U, 3U}) {
      CAPTURE(static_cast<int>(override));
      CAPTURE(which);
      const auto call = changed(override, which);
      if (which % 2 == 0 || override == BackwardOverride::high_precision) {
        test::check_throws<StateError>("layernorm_dense", call);
      } else {
        CHECK_NOTHROW(call());
      }
    }
  }
}

}  // namespace
}  // namespace tape8
