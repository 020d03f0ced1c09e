#include <cfloat>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/quantize/quantizer.hpp>

#include "support/expect.hpp"
#include "support/float_table.hpp"
#include "support/own_ops.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::Values;
using test::values_of;

TEST_CASE("current scaling: the scale is the tensor's own") {
  for (const TensorRole role : {TensorRole::x, TensorRole::dgrad}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const double size : {1e-3, 1.0, 7.0, 1e4}) {
        CAPTURE(to_string(role));
        CAPTURE(to_string(dtype));
        CAPTURE(size);
        const Quantizer q = make_quantizer(CurrentScaling{}, role);
        const Tensor x = test::random_tensor({17, 31}, 1, dtype, -size, size);
        const Values values = values_of(x);
        const auto amax = static_cast<float>(test::largest_magnitude(values));
        const float scale = (q.dtype() == DType::e5m2 ? 57344.0F : 448.0F) / amax;
        const QuantizedTensor cast = q.quantize(x);
        CHECK(bytes_of(cast.rowwise().data) == test::cast_bytes(values, scale, q.dtype()));
        CHECK(cast.rowwise().scale_inv.item<float>() == 1.0F / scale);
      }
    }
  }
}

TEST_CASE("current scaling: power_of_2_scale clears the mantissa") {
  const Quantizer q = make_quantizer(CurrentScaling{.power_of_2_scale = true}, TensorRole::x);
  struct Row {
    float amax, scale_inv;
  };
  for (const Row& row : {Row{448.0F, 1.0F}, Row{449.0F, 2.0F}, Row{7.0F, 0x1p-6F},
                         Row{6.0F, 0x1p-6F}, Row{3.0F, 0x1p-7F}, Row{8.0F, 0x1p-5F}}) {
    CAPTURE(row.amax);
    const QuantizedTensor cast = q.quantize(Tensor::from({row.amax, 0.1F}, {2}));
    CHECK(cast.rowwise().scale_inv.item<float>() == row.scale_inv);
  }
}

TEST_CASE("current scaling: zeros, and an amax that is not finite, use scale 1") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const bool power_of_2 : {false, true}) {
    const Quantizer q =
        make_quantizer(CurrentScaling{.power_of_2_scale = power_of_2}, TensorRole::x);
    const QuantizedTensor zeros = q.quantize(Tensor::zeros({5}));
    CHECK(zeros.rowwise().scale_inv.item<float>() == 1.0F);
    CHECK(values_of(zeros.dequantize()) == Values(5, 0.0));
    const QuantizedTensor bad = q.quantize(Tensor::from({2.0F, kInfinity, kNaN}, {3}));
    CHECK(bad.rowwise().scale_inv.item<float>() == 1.0F);
    CHECK(bytes_of(bad.rowwise().data) == std::vector<std::uint8_t>{0x40, 0x7E, 0x7F});
    CHECK(q.quantize(Tensor::zeros({0, 3})).dequantize().shape() == Shape{0, 3});
    // A tiny amax: the largest float, and zeros stay zeros.
    const Values tiny = values_of(q.quantize(Tensor::from({0.0F, 1e-38F}, {2})).dequantize());
    CHECK(tiny[0] == 0.0);
    CHECK(tiny[1] / 1e-38 == doctest::Approx(1).epsilon(0.035));
  }
}

TEST_CASE("current scaling: has no state to move, read or set") {
  Quantizer q = make_quantizer(CurrentScaling{}, TensorRole::x);
  const Tensor x = test::random_tensor({8}, 1);
  const auto before = bytes_of(q.quantize(x).rowwise().data);
  const Variable w = parameter(Tensor::full({1}, 1.0));
  {
    Tape tape;
    (void)q.quantize(Tensor::full({2}, 1000.0));
    tape.backward(test::sum(w));
  }
  CHECK(bytes_of(q.quantize(x).rowwise().data) == before);
  CHECK(bytes_of(q.clone().quantize(x).rowwise().data) == before);
  test::check_throws<StateError>("quantizer", [&] { (void)q.scale(); });
  test::check_throws<StateError>("quantizer", [&] { (void)q.amax_history(); });
  test::check_throws<StateError>("quantizer", [&] { (void)q.non_finite_passes(); });
  CHECK_THROWS_AS(q.set_state(Scale{1.0F}, std::vector<float>{0.0F}), Error);
}

}  // namespace
}  // namespace tape8
