#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/activation.hpp>
#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm.hpp>
#include <tape8/ops/layernorm_dense.hpp>

#include "support/check_op.hpp"
#include "support/float_table.hpp"
#include "support/matrix.hpp"
#include "support/norm_reference.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::Ran;
using test::Values;
using test::values_of;

constexpr std::int64_t kRows = 9, kIn = 33, kOut = 17;

/// The scale that the rule makes of an amax: from the bits, so that no logarithm rounds.
float scale_of(float amax, DType fp8, bool power_of_2) {
  if (!(amax > 0.0F) || !std::isfinite(amax)) return 1.0F;
  const float scale = (fp8 == DType::e5m2 ? 57344.0F : 448.0F) / amax;
  if (!power_of_2) return scale;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) & 0xFF800000U);
}

Values cast_by_own_amax(const Values& values, DType fp8, bool power_of_2 = false) {
  const float scale =
      scale_of(static_cast<float>(test::largest_magnitude(values)), fp8, power_of_2);
  return test::cast_and_decoded(values, scale, fp8);
}

TEST_CASE("current scaling: bytes and scale of both formats, with and without powers of 2") {
  for (const bool power_of_2 : {false, true}) {
    for (const Fp8Format format : {Fp8Format::hybrid, Fp8Format::e4m3}) {
      for (const TensorRole role : {TensorRole::x, TensorRole::kernel, TensorRole::dgrad}) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
          CAPTURE(power_of_2);
          CAPTURE(to_string(role));
          CAPTURE(to_string(dtype));
          const Quantizer q = make_quantizer(
              CurrentScaling{.format = format, .power_of_2_scale = power_of_2}, role);
          const bool e5m2 = role == TensorRole::dgrad && format == Fp8Format::hybrid;
          CHECK(q.dtype() == (e5m2 ? DType::e5m2 : DType::e4m3));
          for (const double size : {0.9, 1.0, 1.3, 3.0}) {
            CAPTURE(size);
            const Tensor x = test::random_tensor({7, 131}, 1, dtype, -size, 0.5 * size);
            const auto amax = static_cast<float>(test::largest_magnitude(values_of(x)));
            const float scale = scale_of(amax, q.dtype(), power_of_2);
            const QuantizedTensor cast = q.quantize(x);
            CHECK(cast.rowwise().scale_inv.item<float>() == 1.0F / scale);
            CHECK(test::bytes_of(cast.rowwise().data) ==
                  test::cast_bytes(values_of(x), scale, q.dtype()));
            CHECK(cast.rowwise().dq_dtype == dtype);
            CHECK(cast.rowwise().scaling_mode == ScalingMode::per_tensor);
            CHECK(cast.rowwise().data.data() == cast.columnwise().data.data());
          }
        }
      }
    }
  }
}

TEST_CASE("current scaling: an amax of NaN or Inf anywhere is seen, and gives scale 1") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Quantizer q = make_quantizer(CurrentScaling{}, TensorRole::x);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const double bad : {kNaN, kInfinity, -kInfinity}) {
      for (const std::size_t at : {0U, 1U, 15U, 16U, 511U, 512U, 600U}) {
        CAPTURE(to_string(dtype));
        CAPTURE(bad);
        CAPTURE(at);
        Values values = test::random_values(601, 2);
        values[at] = bad;
        const QuantizedTensor cast = q.quantize(Tensor::from(values, {601}, dtype));
        CHECK(cast.rowwise().scale_inv.item<float>() == 1.0F);
        const std::uint8_t byte = test::bytes_of(cast.rowwise().data)[at];
        CHECK(byte == (std::isnan(bad) ? 0x7F : bad > 0.0 ? 0x7E : 0xFE));
      }
    }
  }
}

TEST_CASE("current scaling: the norm's result is rounded to x's type, then cast by its amax") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool power_of_2 : {false, true}) {
      for (const NormType norm : {NormType::layernorm, NormType::rmsnorm}) {
        CAPTURE(to_string(dtype));
        CAPTURE(power_of_2);
        CAPTURE(to_string(norm));
        const QuantizerSet set = make_quantizer_set(CurrentScaling{.power_of_2_scale = power_of_2});
        const Tensor x = test::random_tensor({kRows, kIn}, 1, dtype, -2.0, 3.0);
        const Tensor kernel = test::random_tensor({kIn, kOut}, 2);
        const Tensor gamma = test::random_tensor({kIn}, 3, DType::f32, 0.5, 1.5);
        const Ran ran = test::run({x, kernel, gamma}, [&](const std::vector<Variable>& in) {
          return layernorm_dense(in[0], in[1], in[2], {}, {},
                                 {.norm_type = norm, .quantizer_set = set});
        });
        // The same kernel's norm in x's type; its values are tested elsewhere.
        const Values z = values_of(layernorm(x, gamma, {}, {.norm_type = norm}).tensor());
        const Values dy = values_of(ran.dy);
        const test::DenseReference dense(
            cast_by_own_amax(z, DType::e4m3, power_of_2),
            cast_by_own_amax(values_of(kernel), DType::e4m3, power_of_2), {},
            cast_by_own_amax(dy, DType::e5m2, power_of_2), dy, kRows, kIn, kOut);
        check_close(ran.y, dense.y);
        check_close(ran.gradients[1], dense.dkernel);
        const test::NormGradients reference =
            test::norm_gradients({norm, static_cast<double>(1e-6F), kRows, kIn}, values_of(x),
                                 values_of(gamma), dense.dx);
        // The gradient that reaches the norm is rounded to x's type on its way.
        const double limit = 2.0 * test::tolerance(dtype);
        check_close(ran.gradients[0], reference.dx, limit);
        check_close(ran.gradients[2], reference.dgamma, limit);
      }
    }
  }
}

TEST_CASE("current scaling: the activation's result is rounded to x's type, then cast") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const ActivationType& type : {gelu, swiglu}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(type));
      const Quantizer q = make_quantizer(CurrentScaling{}, TensorRole::x);
      const Tensor x = test::random_tensor({5, 34}, 4, dtype, -3.0, 3.0);
      const Values plain = values_of(activation(x, type).tensor());
      const Values cast = cast_by_own_amax(plain, DType::e4m3);
      CHECK(values_of(activation(x, type, q).tensor()) ==
            test::rounded(test::rounded(cast, DType::f32), dtype));
    }
  }
}

TEST_CASE("current scaling: zeros and no rows through dense") {
  const QuantizerSet set = make_quantizer_set(CurrentScaling{});
  const test::Op op = [&](const std::vector<Variable>& in) {
    return dense(in[0], in[1], in[2], {.quantizer_set = set});
  };
  const Tensor kernel = test::random_tensor({kIn, kOut}, 2);
  const Tensor bias = test::random_tensor({kOut}, 3);
  const Ran zeros = test::run({Tensor::zeros({2, kIn}), kernel, bias}, op);
  CHECK(values_of(zeros.y.slice(0, 1, 2)) == values_of(bias));
  CHECK(values_of(zeros.gradients[1]) == Values(kIn * kOut, 0.0));
  const Ran none = test::run({Tensor::zeros({0, kIn}), kernel, bias}, op);
  CHECK(none.y.shape() == Shape{0, kOut});
  CHECK(values_of(none.gradients[1]) == Values(kIn * kOut, 0.0));
  CHECK(values_of(none.gradients[2]) == Values(kOut, 0.0));
  const Ran still = test::run_from({test::random_tensor({2, kIn}, 1), kernel, bias}, op,
                                   Tensor::zeros({2, kOut}));
  CHECK(values_of(still.gradients[0]) == Values(2 * kIn, 0.0));
}

}  // namespace
}  // namespace tape8
