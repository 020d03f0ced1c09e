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

TEST_CASE("quantized tensor: parts that are not as their mode says") {
  const Tensor data = Tensor::from({1.0F, 2.0F}, {2}, DType::e4m3);
  const auto made = [](const Tensor& values, const Tensor& scale_inv, DType dq_dtype) {
    return [=] {
      (void)QuantizedTensor(QuantizedPart{.data = values,
                                          .scale_inv = scale_inv,
                                          .scaling_mode = ScalingMode::per_tensor,
                                          .dq_dtype = dq_dtype});
    };
  };
  const Tensor one = Tensor::from({0.5F}, {});
  using test::check_throws;
  check_throws<ShapeError>("quantized_tensor", made(data, {}, DType::f32), {"none"});
  check_throws<ShapeError>("quantized_tensor", made(data, Tensor::zeros({0}), DType::f32), {"(0)"});
  check_throws<ShapeError>("quantized_tensor", made(data, Tensor::zeros({5}), DType::f32), {"(5)"});
  check_throws<ShapeError>("quantized_tensor", made(data, one.to(DType::f64), DType::f32), {"f64"});
  check_throws<DTypeError>("quantized_tensor", made(Tensor::zeros({2}), one, DType::f32), {"f32"});
  check_throws<DTypeError>("quantized_tensor", made(data, one, DType::i32), {"i32"});
  CHECK_NOTHROW(made(data, one, DType::bf16)());
}

}  // namespace
}  // namespace tape8
