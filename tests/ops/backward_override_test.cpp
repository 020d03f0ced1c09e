#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm_dense.hpp>

#include "support/expect.hpp"
#include "support/matrix.hpp"
#include "support/quantizer_sets.hpp"
#include "support/run.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::DenseReference;
using test::operand;
using test::Ran;
using test::Values;
using test::values_of;

constexpr std::int64_t kRows = 9, kIn = 33, kOut = 17;

TEST_CASE("backward_override: dgrad and wgrad contract what it says, dy as it is") {
  for (const BackwardOverride override :
       {BackwardOverride::none, BackwardOverride::dequantized, BackwardOverride::high_precision}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(static_cast<int>(override));
      CAPTURE(to_string(dtype));
      QuantizerSet set = test::make_set({});
      set.backward_override = override;
      const QuantizerSet before = set.clone();
      const Tensor x = test::random_tensor({kRows, kIn}, 1, dtype);
      const Tensor kernel = test::random_tensor({kIn, kOut}, 2);
      const Ran ran = test::run({x, kernel}, [&](const std::vector<Variable>& in) {
        return dense(in[0], in[1], {}, {.quantizer_set = set});
      });
      const Values dy = values_of(ran.dy);
      const Values x_cast = operand(values_of(x), before.x, dtype);
      const Values kernel_cast = operand(values_of(kernel), before.kernel, dtype);
      const bool high = override == BackwardOverride::high_precision;
      const Values dy_used =
          override == BackwardOverride::none ? operand(dy, before.dgrad, dtype) : dy;
      const DenseReference forward(x_cast, kernel_cast, {}, dy, dy, kRows, kIn, kOut);
      const DenseReference backward(high ? values_of(x) : x_cast,
                                    high ? test::rounded(values_of(kernel), dtype) : kernel_cast,
                                    {}, dy_used, dy, kRows, kIn, kOut);
      check_close(ran.y, forward.y);
      // Decoded casts may be rounded to x's type on their way into a matmul of that type.
      const double limit = dtype == DType::f32 ? 1e-5 : 2.0 * test::tolerance(dtype);
      check_close(ran.gradients[0], backward.dx, limit);
      check_close(ran.gradients[1], backward.dkernel, limit);
      if (override != BackwardOverride::none) {
        CHECK(set.dgrad.amax_history() == before.dgrad.amax_history());
      }
    }
  }
}

TEST_CASE("backward_override: a recipe carries it into the set") {
  for (const BackwardOverride override :
       {BackwardOverride::none, BackwardOverride::dequantized, BackwardOverride::high_precision}) {
    CHECK(make_quantizer_set(DelayedScaling{.backward_override = override}).backward_override ==
          override);
    CHECK(make_quantizer_set(CurrentScaling{.backward_override = override}).backward_override ==
          override);
  }
  CHECK(make_quantizer_set(HighPrecision{}).backward_override == BackwardOverride::none);
}

TEST_CASE("current scaling: dense against float64 on the same casts") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(to_string(dtype));
    const QuantizerSet set = make_quantizer_set(CurrentScaling{});
    const Tensor x = test::random_tensor({kRows, kIn}, 1, dtype);
    const Tensor kernel = test::random_tensor({kIn, kOut}, 2);
    const Ran ran = test::run({x, kernel}, [&](const std::vector<Variable>& in) {
      return dense(in[0], in[1], {}, {.quantizer_set = set});
    });
    const auto cast = [](const Values& values, DType fp8) {
      const float largest = fp8 == DType::e5m2 ? 57344.0F : 448.0F;
      const float scale = largest / static_cast<float>(test::largest_magnitude(values));
      return test::cast_and_decoded(values, scale, fp8);
    };
    const Values dy = values_of(ran.dy);
    const DenseReference reference(cast(values_of(x), DType::e4m3),
                                   cast(values_of(kernel), DType::e4m3), {}, cast(dy, DType::e5m2),
                                   dy, kRows, kIn, kOut);
    check_close(ran.y, reference.y);
    check_close(ran.gradients[0], reference.dx);
    check_close(ran.gradients[1], reference.dkernel);
  }
}

}  // namespace
}  // namespace tape8
