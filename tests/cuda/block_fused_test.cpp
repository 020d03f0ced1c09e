// Ops whose results are cast with block scales on an emulated GPU.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include <tape8/ops/activation.hpp>

#include "cuda/block_pair.hpp"

namespace tape8::test {
namespace {

using Shape2 = std::array<std::int64_t, 2>;

/// Each kernel and each of its ways.
std::vector<BlockFormat> some_formats() {
  std::vector<BlockFormat> formats = {{ScalingMode::mxfp8_1d, DType::e4m3},
                                      {ScalingMode::float8_block_1d, DType::e4m3},
                                      {ScalingMode::float8_block_2d, DType::e5m2, false},
                                      {ScalingMode::nvfp4_1d, DType::e2m1, true, true},
                                      {ScalingMode::nvfp4_2d, DType::e2m1}};
  formats.push_back(formats[3]);
  formats.back().rounding = StochasticRounding{5, 6};
  return formats;
}

/// `run(backend, device, output)` computes an op of [rows, cols] values. With blocks their bytes
/// are a cast's of its f32 values, and but for what rounds the other way the CPU's.
void check_fused(const Shape2& shape,
                 const std::function<void(Backend&, const Device&, const Output&)>& run) {
  const std::int64_t rows = shape[0], cols = shape[1];
  const auto count = static_cast<double>(rows * cols);
  CAPTURE(rows);
  CAPTURE(cols);
  Pair values = results({rows, cols}, DType::f32);
  run(gpu_backend(), kGpu, values.output(kGpu));
  for (const BlockFormat& format : some_formats()) {
    CAPTURE(name_of(format));
    const std::array<float, 2> amaxes = amaxes_of(values.gpu.to(Device{}), format);
    BlockPair fused(rows, cols, format, {}, amaxes), cast(rows, cols, format, {}, amaxes);
    Pair amax = results({}, DType::f32), cast_amax = results({}, DType::f32);
    on_both([&](Backend& backend, const Device& device) {
      const BlockOutput blocks = fused.output(device);
      run(backend, device, {.amax = amax.data<Amax>(device), .blocks = &blocks});
    });
    const BlockOutput blocks = cast.output(kGpu);
    gpu_backend().cast({.rows = rows,
                        .cols = cols,
                        .x = values.input(kGpu),
                        .y = {.amax = cast_amax.data<Amax>(kGpu), .blocks = &blocks}});
    CHECK(bytes_on_host(amax.gpu) == bytes_on_host(cast_amax.gpu));
    CHECK(fused.same_on(kGpu, cast));
    for (const Usage usage : {Usage::rowwise, Usage::columnwise}) {
      const CodeDifference difference = fused.difference(usage);
      CHECK(difference.most <= 1);
      CHECK(static_cast<double>(difference.count) <= std::max(1.0, 1e-4 * count));
    }
  }
}

TEST_CASE("cuda: norms with block scales, statistics as without") {
  for (const Shape2& shape : {Shape2{1, 1}, Shape2{17, 33}, Shape2{130, 257}, Shape2{3, 9000}}) {
    const std::int64_t rows = shape[0], cols = shape[1];
    const Pair x(random_tensor({rows, cols}, 1, DType::bf16, -2.0, 3.0));
    Pair gamma(random_tensor({cols}, 2)), beta(random_tensor({cols}, 3));
    for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
      const bool layernorm = type == NormType::layernorm;
      Pair mu = results({rows}, DType::f32), rsigma = results({rows}, DType::f32);
      std::vector<std::uint8_t> statistics;
      check_fused(shape, [&](Backend& backend, const Device& device, const Output& y) {
        backend.norm({.type = type,
                      .zero_centered_gamma = !layernorm,
                      .rows = rows,
                      .cols = cols,
                      .x = x.input(device),
                      .gamma = gamma.data(device),
                      .beta = layernorm ? beta.data(device) : nullptr,
                      .y = y,
                      .mu = layernorm ? mu.data(device) : nullptr,
                      .rsigma = rsigma.data(device)});
        if (device != kGpu) return;
        std::vector<std::uint8_t> bytes = bytes_on_host(rsigma.gpu);
        const std::vector<std::uint8_t> means = bytes_on_host(mu.gpu);
        bytes.insert(bytes.end(), means.begin(), means.end());
        if (statistics.empty()) statistics = bytes;
        CHECK(bytes == statistics);
      });
    }
  }
}

/// Parts that are whole tiles, whole vectors, and neither.
constexpr Shape2 kPartShapes[] = {{1, 1}, {20, 128}, {20, 48}, {130, 129}, {0, 5}};

TEST_CASE("cuda: activations with block scales") {
  for (const ActivationType& type :
       {ActivationType{Act::gelu}, geglu, ActivationType{Act::sigmoid, Act::linear, Act::relu}}) {
    CAPTURE(to_string(type));
    for (const Shape2& shape : kPartShapes) {
      const std::int64_t rows = shape[0], cols = shape[1];
      const Pair x(random_tensor({rows, cols * type.count()}, 4, DType::bf16, -3.0, 3.0));
      check_fused(shape, [&](Backend& backend, const Device& device, const Output& y) {
        backend.activation(
            {.type = type, .rows = rows, .cols = cols, .x = x.input(device), .y = y});
      });
    }
  }
}

TEST_CASE("cuda: gradients of activations with block scales, and dbias") {
  for (const ActivationType& type :
       {ActivationType{Act::gelu}, geglu, ActivationType{Act::sigmoid, Act::linear, Act::relu}}) {
    CAPTURE(to_string(type));
    for (const Shape2& shape : kPartShapes) {
      const std::int64_t rows = shape[0], cols = shape[1], x_cols = cols * type.count();
      const Pair x(random_tensor({rows, x_cols}, 5, DType::bf16, -3.0, 3.0));
      const Pair dy(random_tensor({rows, cols}, 6));
      Pair dbias = results({x_cols}, DType::f32);
      check_fused({rows, x_cols}, [&](Backend& backend, const Device& device, const Output& dx) {
        backend.activation_backward({.type = type,
                                     .rows = rows,
                                     .cols = cols,
                                     .dy = dy.input(device),
                                     .x = x.input(device),
                                     .dx = dx,
                                     .dbias = dbias.data(device)});
      });
      CHECK(dbias.error() < 4e-6);
    }
  }
}

}  // namespace
}  // namespace tape8::test
