// Casts with block scales on an emulated GPU: their bytes are the CPU's.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <tape8/core/error.hpp>

#include "cuda/block_pair.hpp"

namespace tape8::test {
namespace {

using Shape2 = std::array<std::int64_t, 2>;
/// Less than a block, half a vector, more than a tile, whole tiles, and nothing.
constexpr Shape2 kShapes[] = {{1, 1}, {17, 33}, {20, 40}, {130, 257}, {128, 256}, {0, 5}, {4, 0}};

Pair uneven(const Shape2& shape, DType dtype) {
  const std::vector<double> x = random_values(shape[0] * shape[1], 1, -3.0, 3.0);
  return Pair(Tensor::from(made_uneven(x, shape[1]), {shape[0], shape[1]}).to(dtype));
}

/// The same cast on both; the results' bytes have to be equal.
void check_cast(const Pair& x, const BlockFormat& format, Usages usages,
                const std::array<float, 2>& amaxes) {
  CAPTURE(name_of(format));
  CAPTURE(usages.rowwise);
  CAPTURE(usages.columnwise);
  const std::int64_t rows = x.cpu.shape()[0], cols = x.cpu.shape()[1];
  BlockPair blocks(rows, cols, format, usages, amaxes);
  on_both([&](Backend& backend, const Device& device) {
    const BlockOutput output = blocks.output(device);
    backend.cast({.rows = rows, .cols = cols, .x = x.input(device), .y = {.blocks = &output}});
  });
  CHECK(blocks.equal());
}

TEST_CASE("cuda: block cast: every mode, usage, type and shape gives the CPU's bytes") {
  for (const Shape2& shape : kShapes) {
    CAPTURE(shape[0]);
    CAPTURE(shape[1]);
    for (const DType dtype : {DType::bf16, DType::f32, DType::f16}) {
      CAPTURE(to_string(dtype));
      const Pair x = uneven(shape, dtype);
      for (const BlockFormat& format : block_formats()) {
        const std::array<float, 2> amaxes = amaxes_of(x.cpu, format);
        check_cast(x, format, {true, true}, amaxes);
        if (dtype != DType::bf16) continue;
        check_cast(x, format, {true, false}, amaxes);
        check_cast(x, format, {false, true}, amaxes);
      }
    }
  }
}

TEST_CASE("cuda: block cast: zeros, denormals, Inf and NaN, and any amax of nvfp4") {
  const float inf = std::numeric_limits<float>::infinity();
  const float largest = std::numeric_limits<float>::max();
  for (const Shape2& shape : {Shape2{70, 150}, Shape2{150, 70}}) {
    const std::vector<double> x =
        made_uneven(random_values(shape[0] * shape[1], 2, -3.0, 3.0), shape[1]);
    const Pair special(Tensor::from(made_special(x, shape[1]), {shape[0], shape[1]}, DType::f32));
    for (const BlockFormat& format : block_formats()) {
      for (const float amax : {100.0F, largest, inf, std::nanf(""), 0.0F, 1e-40F}) {
        CAPTURE(amax);
        check_cast(special, format, {true, true}, {amax, amax});
        if (!is_nvfp4(format.scaling_mode)) break;
      }
    }
  }
}

TEST_CASE("cuda: block cast: with amax and dbias, of the values as they were") {
  for (const Shape2& shape : kShapes) {
    CAPTURE(shape[0]);
    const Pair x = uneven(shape, DType::bf16);
    for (const BlockFormat& format : block_formats()) {
      CAPTURE(name_of(format));
      BlockPair blocks(shape[0], shape[1], format, {true, true}, amaxes_of(x.cpu, format));
      Pair amax = results({}, DType::f32), dbias = results({shape[1]}, DType::f32);
      on_both([&](Backend& backend, const Device& device) {
        const BlockOutput output = blocks.output(device);
        backend.cast({.rows = shape[0],
                      .cols = shape[1],
                      .x = x.input(device),
                      .y = {.amax = amax.data<Amax>(device), .blocks = &output},
                      .dbias = dbias.data(device)});
      });
      CHECK(blocks.equal());
      CHECK(amax.equal());
      CHECK(dbias.error() < 1e-6);
    }
  }
}

TEST_CASE("cuda: block cast: the transform's amax, beside values, amax, dbias and blocks") {
  BlockFormat format{ScalingMode::nvfp4_1d, DType::e2m1};
  format.hadamard = true;
  for (const Shape2& shape : kShapes) {
    CAPTURE(shape[0]);
    const Pair x = uneven(shape, DType::bf16);
    Pair y = results({shape[0], shape[1]}, DType::f16), amax = results({}, DType::f32);
    Pair transformed = results({}, DType::f32), again = results({}, DType::f32);
    Pair dbias = results({shape[1]}, DType::f32);
    BlockPair blocks(shape[0], shape[1], format, {true, true}, amaxes_of(x.cpu, format));
    on_both([&](Backend& backend, const Device& device) {
      CastArgs args{.rows = shape[0],
                    .cols = shape[1],
                    .x = x.input(device),
                    .y = y.output(device),
                    .dbias = dbias.data(device),
                    .hadamard_amax = transformed.data<Amax>(device)};
      args.y.amax = amax.data<Amax>(device);
      backend.cast(args);
      const BlockOutput output = blocks.output(device);
      args.y = {.blocks = &output};
      args.hadamard_amax = again.data<Amax>(device);
      backend.cast(args);
    });
    CHECK(y.equal());
    CHECK(amax.equal());
    CHECK(transformed.equal());
    CHECK(again.equal());
    CHECK(blocks.equal());
    CHECK(dbias.error() < 1e-6);
    if (shape[0] * shape[1] > 0) {
      CHECK(transformed.gpu.item<float>() == amaxes_of(x.cpu, format)[1]);
    }
  }
}

TEST_CASE("cuda: block cast: an amax of NaN") {
  std::vector<double> values(40 * 3, 1.0);
  values[119] = std::nan("");
  const Pair x(Tensor::from(values, {40, 3}, DType::f32));
  Pair transformed = results({}, DType::f32);
  gpu_backend().cast(
      {.rows = 40, .cols = 3, .x = x.input(kGpu), .hadamard_amax = transformed.data<Amax>(kGpu)});
  CHECK(std::isnan(transformed.gpu.item<float>()));
}

TEST_CASE("cuda: block decode: values, amax and sums are the CPU's; from blocks to blocks") {
  for (const Shape2& shape : kShapes) {
    CAPTURE(shape[0]);
    CAPTURE(shape[1]);
    const std::int64_t rows = shape[0], cols = shape[1];
    const Pair x = uneven(shape, DType::f32);
    for (const BlockFormat& format : block_formats()) {
      CAPTURE(name_of(format));
      BlockPair blocks(rows, cols, format, {true, true}, amaxes_of(x.cpu, format));
      on_both([&](Backend& backend, const Device& device) {
        const BlockOutput output = blocks.output(device);
        backend.cast({.rows = rows, .cols = cols, .x = x.input(device), .y = {.blocks = &output}});
      });
      for (const Usage usage : {Usage::rowwise, Usage::columnwise}) {
        CAPTURE(usage == Usage::rowwise);
        Pair f32 = results({rows, cols}, DType::f32), bf16 = results({rows, cols}, DType::bf16);
        Pair amax = results({}, DType::f32), dbias = results({cols}, DType::f32);
        const BlockFormat other{ScalingMode::mxfp8_1d, DType::e4m3};
        BlockPair cast_again(rows, cols, other, {true, true}, {});
        on_both([&](Backend& backend, const Device& device) {
          const BlockInput input = blocks.block_input(usage, device);
          const Input coded = blocks.input(usage, device, input);
          const BlockOutput output = cast_again.output(device);
          Output values = f32.output(device);
          values.amax = amax.data<Amax>(device);
          backend.cast({.rows = rows, .cols = cols, .x = coded, .y = values});
          backend.cast({.rows = rows,
                        .cols = cols,
                        .x = coded,
                        .y = bf16.output(device),
                        .dbias = dbias.data(device)});
          backend.cast({.rows = rows, .cols = cols, .x = coded, .y = {.blocks = &output}});
        });
        CHECK(f32.equal());
        CHECK(bf16.equal());
        CHECK(amax.equal());
        CHECK(cast_again.equal());
        CHECK(dbias.error() < 1e-6);
      }
    }
  }
}

TEST_CASE("cuda: block decode: scales that are NaN, zero, and the extremes of e8m0") {
  const Pair ones(Tensor::full({1, 128}, 1.0, DType::e4m3));
  const Pair e8m0(Tensor::from(std::vector<double>{0, 127, 254, 255}, {4}, DType::u8));
  const Pair sixes(Tensor::full({1, 32}, 6.0, DType::e2m1));
  const Pair e4m3(Tensor::from(std::vector<double>{127, 0}, {2}, DType::u8));
  Pair y = results({1, 128}, DType::f32), z = results({1, 32}, DType::f32);
  on_both([&](Backend& backend, const Device& device) {
    const BlockInput mxfp8{ScalingMode::mxfp8_1d, Usage::rowwise, e8m0.on(device).data()};
    const BlockInput nvfp4{ScalingMode::nvfp4_1d, Usage::rowwise, e4m3.on(device).data()};
    Input x = ones.input(device);
    x.blocks = &mxfp8;
    backend.cast({.rows = 1, .cols = 128, .x = x, .y = y.output(device)});
    x = sixes.input(device);
    x.blocks = &nvfp4;
    backend.cast({.rows = 1, .cols = 32, .x = x, .y = z.output(device)});
  });
  CHECK(y.equal());
  // A NaN may have any sign.
  const std::vector<double> cpu = values_of(z.cpu), gpu = values_of(z.gpu);
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    CHECK((gpu[i] == cpu[i] || (std::isnan(gpu[i]) && std::isnan(cpu[i]))));
  }
}

TEST_CASE("cuda: block cast: what does not fit is refused, and nothing written") {
  const Pair x(Tensor::zeros({16, 16}, DType::f64));
  BlockPair blocks(16, 16, {ScalingMode::mxfp8_1d, DType::e4m3}, {true, true}, {});
  BlockOutput output = blocks.output(kGpu);
  const CastArgs args{.rows = 16, .cols = 16, .x = x.input(kGpu), .y = {.blocks = &output}};
  CHECK_THROWS_WITH_AS(gpu_backend().cast(args), "cuda: cast: takes no block scales with f64",
                       UnsupportedError);
  Pair amax(Tensor::zeros({}, DType::f32));
  CHECK_THROWS_WITH_AS(
      gpu_backend().cast(
          {.rows = 16, .cols = 16, .x = x.input(kGpu), .hadamard_amax = amax.data<Amax>(kGpu)}),
      "cuda: cast: takes no hadamard_amax with f64", UnsupportedError);
  CHECK(blocks.equal());
}

}  // namespace
}  // namespace tape8::test
