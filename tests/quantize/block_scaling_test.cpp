#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/quantize/quantizer.hpp>

#include "support/block_decode.hpp"
#include "support/expect.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::check_throws;
using test::decode_operand;
using test::Values;
using test::values_of;

constexpr std::array kRoles{TensorRole::x, TensorRole::kernel, TensorRole::dgrad};

std::vector<Recipe> block_recipes() {
  return {MXFP8BlockScaling{}, Float8BlockScaling{}, Float8BlockScaling{.power_of_2_scale = false},
          NVFP4BlockScaling{}};
}

TEST_CASE("block scaling: what each recipe casts a role to") {
  const auto is = [](const Recipe& recipe, TensorRole role, DType dtype, ScalingMode mode) {
    CAPTURE(to_string(role));
    const QuantizedTensor cast =
        make_quantizer(recipe, role).quantize(test::random_tensor({33, 40}, 1));
    for (const QuantizedPart* part : {&cast.rowwise(), &cast.columnwise()}) {
      CHECK(part->data.dtype() == dtype);
      CHECK(part->scaling_mode == mode);
      CHECK(part->scale_inv.dtype() == scale_dtype(mode));
      CHECK(part->dq_dtype == DType::f32);
    }
  };
  for (const TensorRole role : kRoles) {
    const bool kernel = role == TensorRole::kernel;
    is(MXFP8BlockScaling{}, role, DType::e4m3, ScalingMode::mxfp8_1d);
    is(Float8BlockScaling{}, role, DType::e4m3,
       kernel ? ScalingMode::float8_block_2d : ScalingMode::float8_block_1d);
    is(NVFP4BlockScaling{}, role, DType::e2m1,
       kernel ? ScalingMode::nvfp4_2d : ScalingMode::nvfp4_1d);
    is(NVFP4BlockScaling{.kernel_2d_blocks = false}, role, DType::e2m1, ScalingMode::nvfp4_1d);
  }
  const MXFP8BlockScaling hybrid{.format = Fp8Format::hybrid};
  is(hybrid, TensorRole::x, DType::e4m3, ScalingMode::mxfp8_1d);
  is(hybrid, TensorRole::dgrad, DType::e5m2, ScalingMode::mxfp8_1d);
  is(Float8BlockScaling{.format = Fp8Format::hybrid}, TensorRole::dgrad, DType::e5m2,
     ScalingMode::float8_block_1d);
}

TEST_CASE("block scaling: the shapes of data and scales") {
  const auto shapes = [](const Recipe& recipe, TensorRole role, Usage usage) {
    const QuantizedTensor cast =
        make_quantizer(recipe, role).quantize(test::random_tensor({3, 50, 140}, 1));
    CHECK(cast.shape() == Shape{3, 50, 140});
    const QuantizedPart& part = cast.operand(usage);
    return std::array{part.data.shape(), part.scale_inv.shape()};
  };
  const Shape whole{3, 50, 140};
  const auto row = Usage::rowwise;
  const auto column = Usage::columnwise;
  CHECK(shapes(MXFP8BlockScaling{}, TensorRole::x, row) == std::array{whole, Shape{150, 5}});
  CHECK(shapes(MXFP8BlockScaling{}, TensorRole::x, column) == std::array{whole, Shape{5, 140}});
  CHECK(shapes(Float8BlockScaling{}, TensorRole::x, row) == std::array{whole, Shape{150, 2}});
  CHECK(shapes(Float8BlockScaling{}, TensorRole::x, column) == std::array{whole, Shape{2, 140}});
  CHECK(shapes(Float8BlockScaling{}, TensorRole::kernel, row) == std::array{whole, Shape{2, 2}});
  CHECK(shapes(NVFP4BlockScaling{}, TensorRole::x, row) ==
        std::array{Shape{150, 144}, Shape{150, 9}});
  CHECK(shapes(NVFP4BlockScaling{}, TensorRole::x, column) ==
        std::array{Shape{140, 160}, Shape{140, 10}});
  CHECK(shapes(NVFP4BlockScaling{}, TensorRole::kernel, row) ==
        std::array{Shape{150, 144}, Shape{10, 9}});
  CHECK(shapes(NVFP4BlockScaling{}, TensorRole::kernel, column) ==
        std::array{Shape{140, 160}, Shape{9, 10}});
}

TEST_CASE("block scaling: square FP8 blocks need no second buffer") {
  const QuantizedTensor cast = make_quantizer(Float8BlockScaling{}, TensorRole::kernel)
                                   .quantize(test::random_tensor({140, 150}, 1));
  CHECK(cast.rowwise().data.data() == cast.columnwise().data.data());
}

TEST_CASE("block scaling: dequantized values are near, and are what the layout says") {
  // Half a unit in the last place of the largest value of a block: e4m3 2^-4 of it, e2m1 1/6 of it,
  // and as much again where the block's own scale was rounded down.
  for (const Recipe& recipe : block_recipes()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const TensorRole role : kRoles) {
        CAPTURE(to_string(recipe));
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(role));
        const Tensor x = test::random_tensor({37, 150}, 1, dtype);
        const Quantizer q = make_quantizer(recipe, role);
        const QuantizedTensor cast = q.quantize(x);
        const bool fp4 = q.dtype() == DType::e2m1;
        const double limit = fp4 ? (role == TensorRole::dgrad ? 0.4 : 0.25) : 0x1p-4;
        const Tensor back = cast.dequantize();
        CHECK(back.dtype() == dtype);
        test::check_close(back, values_of(x), limit);
        test::check_close(back, decode_operand(cast, Usage::rowwise, 37, 150).values);
        test::check_close(cast.only(Usage::columnwise).dequantize(), values_of(x),
                          fp4 ? 0.4 : 0x1p-4);
      }
    }
  }
}

TEST_CASE("block scaling: zeros stay zeros, and other blocks keep to themselves") {
  for (const Recipe& recipe : block_recipes()) {
    for (const TensorRole role : kRoles) {
      CAPTURE(to_string(recipe));
      CAPTURE(to_string(role));
      const Quantizer q = make_quantizer(recipe, role);
      CHECK(test::largest_magnitude(values_of(q.quantize(Tensor::zeros({20, 140})).dequantize())) ==
            0.0);
      // An amax so small that its scale would be Inf.
      const Tensor tiny = q.quantize(Tensor::full({20, 140}, 1e-44, DType::f32)).dequantize();
      CHECK(std::isfinite(test::largest_magnitude(values_of(tiny))));
      CHECK(test::largest_magnitude(values_of(tiny)) < 1e-38);
      if (is_nvfp4(scaling_mode(recipe, role))) continue;  // a NaN is in the tensor's scale
      Values values(static_cast<std::size_t>(256 * 256), 1.0);
      values[0] = std::numeric_limits<double>::quiet_NaN();
      const Values back =
          values_of(q.quantize(Tensor::from(values, {256, 256}, DType::f32)).dequantize());
      CHECK(std::isnan(back[0]));
      CHECK(back[200] == 1.0);
      CHECK(back[255 * 256] == 1.0);
    }
  }
}

TEST_CASE("block scaling: a NaN makes every NVFP4 block NaN") {
  Values values(64, 1.0);
  values[5] = std::numeric_limits<double>::quiet_NaN();
  const QuantizedTensor cast = make_quantizer(NVFP4BlockScaling{}, TensorRole::x)
                                   .quantize(Tensor::from(values, {2, 32}, DType::f32));
  for (const std::uint8_t byte : bytes_of(cast.rowwise().scale_inv)) CHECK(byte == 0x7F);
  for (const double value : values_of(cast.dequantize())) CHECK(std::isnan(value));
}

TEST_CASE("block scaling: a usage that was not cast is refused by name") {
  const QuantizedTensor cast =
      make_quantizer(MXFP8BlockScaling{}, TensorRole::x).quantize(test::random_tensor({4, 40}, 1));
  const QuantizedTensor half = cast.only(Usage::columnwise);
  CHECK(half.defined());
  CHECK(half.is_quantized());
  CHECK(!half.has(Usage::rowwise));
  check_throws<StateError>("quantized_tensor", [&] { (void)half.rowwise(); },
                           {"rowwise", "columnwise"});
  const QuantizedTensor none = cast.only(Usage::rowwise).only(Usage::columnwise);
  CHECK(!none.defined());
  check_throws<StateError>("quantized_tensor", [&] { (void)none.dequantize(); }, {"none"});
}

TEST_CASE("block scaling: parts that are not as their mode says are refused") {
  const QuantizedTensor cast =
      make_quantizer(NVFP4BlockScaling{}, TensorRole::x).quantize(test::random_tensor({4, 40}, 1));
  const auto refused = [&]<class E>(const E*, std::initializer_list<std::string_view> parts,
                                    const auto& spoil) {
    QuantizedPart part = cast.rowwise();
    spoil(part);
    check_throws<E>(
        "quantized_tensor",
        [&] {
          (void)QuantizedTensor({4, 40}, -1, part, QuantizedPart{});
        },
        parts);
  };
  const DTypeError* dtype = nullptr;
  const ShapeError* shape = nullptr;
  const OptionError* option = nullptr;
  refused(dtype, {"e2m1", "nvfp4_1d", "e4m3"}, [](QuantizedPart& p) {
    p.data = Tensor::zeros({4, 48}, DType::e4m3);
  });
  refused(dtype, {"e4m3 or e5m2", "mxfp8_1d", "e2m1"},
          [](QuantizedPart& p) { p.scaling_mode = ScalingMode::mxfp8_1d; });
  refused(dtype, {"dq_dtype", "i32"}, [](QuantizedPart& p) { p.dq_dtype = DType::i32; });
  refused(dtype, {"dq_dtype", "f64"}, [](QuantizedPart& p) { p.dq_dtype = DType::f64; });
  refused(shape, {"data", "(4, 48)", "(4, 32)"}, [](QuantizedPart& p) {
    p.data = Tensor::zeros({4, 32}, DType::e2m1);
  });
  refused(shape, {"scale_inv", "e4m3", "(4, 3)", "none"},
          [](QuantizedPart& p) { p.scale_inv = {}; });
  refused(shape, {"scale_inv", "f32"}, [](QuantizedPart& p) {
    p.scale_inv = Tensor::zeros({4, 3});
  });
  refused(shape, {"tensor_scale_inv"}, [](QuantizedPart& p) { p.tensor_scale_inv = {}; });
  refused(option, {"hadamard"}, [](QuantizedPart& p) { p.hadamard = true; });
  refused(option, {"per_tensor"},
          [](QuantizedPart& p) { p.scaling_mode = ScalingMode::per_tensor; });
  check_throws<OptionError>("quantized_tensor", [&] { (void)QuantizedTensor(cast.rowwise()); },
                            {"nvfp4_1d"});
  check_throws<ShapeError>("matrix_shape",
                           [&] {
                             (void)QuantizedTensor({4, 40}, 3, cast.rowwise(), QuantizedPart{});
                           },
                           {"flatten_axis", "3"});
}

TEST_CASE("block scaling: parts that do not fit together are refused") {
  const Tensor x = test::random_tensor({4, 40}, 1);
  const QuantizedTensor nvfp4 = make_quantizer(NVFP4BlockScaling{}, TensorRole::x).quantize(x);
  const QuantizedTensor mxfp8 = make_quantizer(MXFP8BlockScaling{}, TensorRole::x).quantize(x);
  check_throws<OptionError>(
      "quantized_tensor",
      [&] {
        (void)QuantizedTensor({4, 40}, -1, nvfp4.rowwise(), mxfp8.columnwise());
      },
      {"one scaling mode", "nvfp4_1d", "mxfp8_1d"});
  QuantizedPart scaled = mxfp8.rowwise();
  scaled.tensor_scale_inv = nvfp4.rowwise().tensor_scale_inv;
  check_throws<OptionError>("quantized_tensor",
                            [&] {
                              (void)QuantizedTensor({4, 40}, -1, scaled, QuantizedPart{});
                            },
                            {"tensor_scale_inv", "mxfp8_1d"});
  check_throws<ShapeError>("matrix_shape", [] { (void)matrix_shape({}, 5); }, {"5"});
}

TEST_CASE("block scaling: only floats are cast, and only formats that train") {
  for (const Recipe& recipe : block_recipes()) {
    const Quantizer q = make_quantizer(recipe, TensorRole::x);
    for (const DType dtype : {DType::i32, DType::u8, DType::boolean, DType::e4m3, DType::f64}) {
      check_throws<DTypeError>("quantize",
                               [&] {
                                 (void)q.quantize(Tensor::zeros({4, 32}, dtype));
                               },
                               {to_string(dtype)});
    }
  }
  const auto unknown = static_cast<Fp8Format>(7);
  check_throws<OptionError>("mxfp8_block_scaling", [&] {
    (void)make_quantizer(MXFP8BlockScaling{.format = unknown}, TensorRole::x);
  });
  check_throws<OptionError>("float8_block_scaling", [&] {
    (void)make_quantizer(Float8BlockScaling{.format = unknown}, TensorRole::x);
  });
}

TEST_CASE("block scaling: the random state moves with each cast of dgrad, and can be set") {
  const Tensor x = test::random_tensor({16, 64}, 1);
  const auto bytes = [&](const Quantizer& q) { return bytes_of(q.quantize(x).rowwise().data); };
  Quantizer q = make_quantizer(NVFP4BlockScaling{}, TensorRole::dgrad);
  const RandomState start = q.random_state();
  CHECK(start.casts == 0);
  const Quantizer twin = q.clone();
  const auto first = bytes(q);
  const auto second = bytes(q);
  CHECK(first != second);
  CHECK(q.random_state() == RandomState{start.stream, 2});
  CHECK(bytes(twin) == first);
  q.set_random_state(start);
  CHECK(bytes(q) == first);
  // Other quantizers and other seeds have other numbers.
  Quantizer other = make_quantizer(NVFP4BlockScaling{}, TensorRole::dgrad);
  CHECK(other.random_state().stream != start.stream);
  CHECK(bytes(other) != first);
  Quantizer seeded = make_quantizer(NVFP4BlockScaling{.seed = 1}, TensorRole::dgrad);
  seeded.set_random_state(start);
  CHECK(bytes(seeded) != first);

  for (const Quantizer& none :
       {make_quantizer(NVFP4BlockScaling{}, TensorRole::x),
        make_quantizer(NVFP4BlockScaling{.stochastic_rounding = false}, TensorRole::dgrad),
        make_quantizer(MXFP8BlockScaling{}, TensorRole::dgrad)}) {
    CHECK(bytes(none) == bytes(none));
    check_throws<StateError>("quantizer", [&] { (void)none.random_state(); }, {"random_state"});
  }
  check_throws<StateError>("quantizer", [&] { (void)q.scale(); }, {"delayed", "nvfp4"});
}

TEST_CASE("block scaling: what lies in other strides is cast as its copy") {
  for (const Recipe& recipe : block_recipes()) {
    const Quantizer q = make_quantizer(recipe, TensorRole::kernel);
    const Tensor x = test::random_tensor({40, 36}, 1);
    const Tensor view = x.transpose(0, 1);
    CHECK(bytes_of(q.quantize(view).columnwise().data) ==
          bytes_of(q.quantize(view.contiguous()).columnwise().data));
  }
}

}  // namespace
}  // namespace tape8
