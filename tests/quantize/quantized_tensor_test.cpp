#include <doctest/doctest.h>

#include <tape8/quantize/quantized_tensor.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

TEST_CASE("quantized tensor: none") {
  const QuantizedTensor none;
  CHECK_FALSE(none.defined());
  CHECK_FALSE(none.is_quantized());
  test::check_throws<StateError>("quantized_tensor", [&] { (void)none.rowwise(); });
  test::check_throws<StateError>("quantized_tensor", [&] { (void)none.columnwise(); });
  test::check_throws<StateError>("quantized_tensor", [&] { (void)none.operand(Usage::rowwise); });
  test::check_throws<StateError>("quantized_tensor", [&] { (void)none.dequantize(); });
}

TEST_CASE("quantized tensor: a plain tensor is an operand without scaling") {
  const Tensor x = test::random_tensor({2, 3}, 1, DType::bf16);
  const QuantizedTensor operand(x);
  CHECK(operand.defined());
  CHECK_FALSE(operand.is_quantized());
  CHECK(operand.shape() == Shape{2, 3});
  CHECK(operand.rowwise().scaling_mode == ScalingMode::none);
  CHECK(operand.rowwise().data.shares_storage(x));
  CHECK_FALSE(operand.rowwise().scale_inv.defined());
  CHECK(operand.dequantize().dtype() == DType::bf16);
  CHECK(test::values_of(operand.dequantize()) == test::values_of(x));
}

TEST_CASE("quantized tensor: made by hand from bytes and a scale_inv") {
  const Tensor data = Tensor::from({1.0F, -2.0F, 448.0F}, {3}, DType::e4m3);
  const QuantizedTensor tensor(QuantizedPart{.data = data,
                                             .scale_inv = Tensor::from({0.25F}, {}),
                                             .scaling_mode = ScalingMode::per_tensor,
                                             .dq_dtype = DType::f32});
  CHECK(tensor.is_quantized());
  CHECK(test::values_of(tensor.dequantize()) == test::Values{0.25, -0.5, 112.0});
  CHECK(tensor.operand(Usage::columnwise).data.shares_storage(data));
}

}  // namespace
}  // namespace tape8
