#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/quantize/quantizer.hpp>

#include "support/expect.hpp"
#include "support/float_table.hpp"
#include "support/passes.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::float_table;
using test::Values;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A quantizer that writes `fp8` with `scale`.
Quantizer quantizer_for(DType fp8, float scale) {
  Quantizer q = make_quantizer(DelayedScaling{.amax_history_len = 1},
                               fp8 == DType::e5m2 ? TensorRole::dgrad : TensorRole::x);
  q.set_state(Scale{scale}, std::vector<float>{0.0F});
  REQUIRE(q.dtype() == fp8);
  return q;
}

/// Every midpoint of the format and its f32 neighbours, the format's values, and what overflows.
Values edge_values(DType fp8) {
  const Values& table = float_table(fp8).values();
  Values result{0.0, -0.0, 1e30, -1e30, FLT_MAX, -FLT_MAX, FLT_TRUE_MIN};
  for (std::size_t i = 0; i + 1 < table.size(); ++i) {
    for (const double center : {table[i], (table[i] + table[i + 1]) / 2.0}) {
      const auto value = static_cast<float>(center);
      for (const float v : {value, std::nextafterf(value, 0.0F), std::nextafterf(value, FLT_MAX)}) {
        result.push_back(static_cast<double>(v));
        result.push_back(static_cast<double>(-v));
      }
    }
  }
  result.push_back(float_table(fp8).largest());
  result.push_back(float_table(fp8).largest() * 1.2);
  return result;
}

TEST_CASE("cast: bytes equal an independent table, at the edges and densely") {
  for (const DType fp8 : {DType::e4m3, DType::e5m2}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const float scale : {1.0F, 0.3F, 112.0F, 3e-5F}) {
        CAPTURE(to_string(fp8));
        CAPTURE(to_string(dtype));
        CAPTURE(scale);
        Values values = edge_values(fp8);
        for (double& value : values) value /= static_cast<double>(scale);
        const Values dense = test::random_values(3001, 5, -600.0, 600.0);
        values.insert(values.end(), dense.begin(), dense.end());
        for (double& value : values) {  // f16 has no room for the largest
          if (dtype == DType::f16) value = std::fmax(-65504.0, std::fmin(65504.0, value));
          value = std::fmax(-FLT_MAX, std::fmin(FLT_MAX, value));
        }
        const Tensor x = Tensor::from(values, {static_cast<std::int64_t>(values.size())}, dtype);
        const QuantizedTensor cast = quantizer_for(fp8, scale).quantize(x);
        CHECK(cast.rowwise().data.dtype() == fp8);
        CHECK(bytes_of(cast.rowwise().data) == test::cast_bytes(test::values_of(x), scale, fp8));
      }
    }
  }
}

TEST_CASE("cast: saturates, Inf too, and keeps NaN") {
  const Tensor x = Tensor::from(
      {448.0F, 464.0F, 465.0F, 1000.0F, -1000.0F, kNaN, -kNaN, kInfinity, -kInfinity}, {9});
  CHECK(bytes_of(quantizer_for(DType::e4m3, 1.0F).quantize(x).rowwise().data) ==
        std::vector<std::uint8_t>{0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x7F, 0x7F, 0x7E, 0xFE});
  const auto wide = bytes_of(quantizer_for(DType::e5m2, 64.0F).quantize(x).rowwise().data);
  CHECK(wide[3] == 0x7B);
  CHECK(wide[4] == 0xFB);
  CHECK(wide[5] == 0x7F);
  CHECK(wide[6] == 0x7F);
  CHECK(wide[7] == 0x7B);
  CHECK(wide[8] == 0xFB);
}

TEST_CASE("cast: a product with the scale that overflows saturates") {
  const Tensor x = Tensor::from({1e30F, -1e30F, 0.0F}, {3});
  CHECK(bytes_of(quantizer_for(DType::e4m3, 1e30F).quantize(x).rowwise().data) ==
        std::vector<std::uint8_t>{0x7E, 0xFE, 0x00});
}

TEST_CASE("cast: dequantize is the byte times scale_inv, rounded to x's type") {
  for (const DType fp8 : {DType::e4m3, DType::e5m2}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const float scale : {1.0F, 0.3F, 112.0F}) {
        CAPTURE(to_string(fp8));
        CAPTURE(to_string(dtype));
        CAPTURE(scale);
        const Tensor x = test::random_tensor({37, 11}, 2, dtype, -3.0, 3.0);
        const QuantizedTensor cast = quantizer_for(fp8, scale).quantize(x);
        const float scale_inv = 1.0F / scale;
        CHECK(cast.rowwise().scale_inv.item<float>() == scale_inv);
        CHECK(cast.rowwise().scale_inv.dtype() == DType::f32);
        CHECK(cast.rowwise().dq_dtype == dtype);
        const std::vector<std::uint8_t> bytes = test::cast_bytes(test::values_of(x), scale, fp8);
        Values expected(bytes.size());
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          const auto decoded = static_cast<float>(float_table(fp8).decode(bytes[i]));
          expected[i] = static_cast<double>(decoded * scale_inv);
        }
        const Tensor result = cast.dequantize();
        CHECK(result.dtype() == dtype);
        CHECK(result.shape() == x.shape());
        CHECK(test::values_of(result) == test::rounded(expected, dtype));
      }
    }
  }
}

TEST_CASE("cast: both usages read one buffer") {
  const QuantizedTensor cast = quantizer_for(DType::e4m3, 2.0F).quantize(Tensor::zeros({2, 3}));
  CHECK(cast.rowwise().data.shares_storage(cast.columnwise().data));
  CHECK(cast.rowwise().scaling_mode == ScalingMode::per_tensor);
  CHECK(cast.is_quantized());
  CHECK(cast.rowwise().data.nbytes() == 6);
}

TEST_CASE("cast: a view is cast as its contiguous copy") {
  const Tensor x = test::random_tensor({6, 9}, 3);
  const Quantizer q = quantizer_for(DType::e4m3, 100.0F);
  for (const Tensor& view : {x.transpose(0, 1), x.slice(1, 2, 7), x.slice(0, 1, 4)}) {
    const QuantizedTensor cast = q.quantize(view);
    CHECK(cast.shape() == view.shape());
    CHECK(bytes_of(cast.rowwise().data) == bytes_of(q.quantize(view.clone()).rowwise().data));
    CHECK(bytes_of(cast.rowwise().data) ==
          test::cast_bytes(test::values_of(view), 100.0F, DType::e4m3));
  }
}

TEST_CASE("cast: what was cast keeps the scale_inv of its cast") {
  const Quantizer q = quantizer_for(DType::e4m3, 1.0F);
  const Tensor halves = Tensor::full({4}, 0.5);
  const QuantizedTensor first = q.quantize(halves);
  for (const float amax : {4.0F, 0.7F, 100.0F}) {
    test::pass(q, {amax});
    CHECK(test::values_of(first.dequantize()) == Values(4, 0.5));
    CHECK(first.rowwise().scale_inv.item<float>() == 1.0F);
  }
  Quantizer changed = q;
  changed.set_state(Scale{3.0F}, std::vector<float>{0.0F});
  CHECK(test::values_of(first.dequantize()) == Values(4, 0.5));
}

TEST_CASE("cast: of all zeros decodes to zeros at any scale") {
  for (const DType fp8 : {DType::e4m3, DType::e5m2}) {
    for (const float scale : {1.0F, FLT_MAX, FLT_MIN, 1e-30F}) {
      CAPTURE(scale);
      const QuantizedTensor cast = quantizer_for(fp8, scale).quantize(Tensor::zeros({70}));
      CHECK(test::values_of(cast.dequantize()) == Values(70, 0.0));
    }
  }
}

TEST_CASE("cast: any size, from one element to odd thousands") {
  const Quantizer q = quantizer_for(DType::e4m3, 50.0F);
  for (const std::int64_t size : {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1000, 4097}) {
    CAPTURE(size);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor x = test::random_tensor({size}, 17, dtype);
      CHECK(bytes_of(q.quantize(x).rowwise().data) ==
            test::cast_bytes(test::values_of(x), 50.0F, DType::e4m3));
    }
  }
}

TEST_CASE("cast: the amax is that of every element, wherever it stands") {
  const std::int64_t size = 1003;
  for (const std::int64_t at : {0, 1, 15, 16, 511, 999, 1000, 1002}) {
    for (const float value : {9.5F, -9.5F}) {
      CAPTURE(at);
      CAPTURE(value);
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Quantizer q = quantizer_for(DType::e4m3, 1.0F);
        Values values = test::random_values(size, 23);
        values[static_cast<std::size_t>(at)] = static_cast<double>(value);
        const Variable w = parameter(Tensor::full({1}, 1.0));
        Tape tape;
        (void)q.quantize(Tensor::from(values, {size}, dtype));
        tape.backward(test::sum(w));
        CHECK(q.scale() == Scale{448.0F / 9.5F});
      }
    }
    for (const float bad : {kNaN, -kNaN, kInfinity}) {
      Quantizer q = quantizer_for(DType::e4m3, 1.0F);
      Values values = test::random_values(size, 23);
      values[static_cast<std::size_t>(at)] = static_cast<double>(bad);
      const Variable w = parameter(Tensor::full({1}, 1.0));
      Tape tape;
      (void)q.quantize(Tensor::from(values, {size}, DType::f32));
      tape.backward(test::sum(w));
      CHECK(q.non_finite_passes() == 1);
    }
  }
}

TEST_CASE("cast: types that are not cast") {
  const Quantizer q = quantizer_for(DType::e4m3, 1.0F);
  for (const DType dtype : {DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean,
                            DType::e4m3, DType::e5m2, DType::e8m0, DType::e2m1}) {
    CAPTURE(to_string(dtype));
    test::check_throws<DTypeError>("quantize", [&] { (void)q.quantize(Tensor::zeros({2}, dtype)); },
                                   {to_string(dtype)});
  }
  test::check_throws<OptionError>("quantize", [&] { (void)q.quantize(Tensor{}); });
}

}  // namespace
}  // namespace tape8
