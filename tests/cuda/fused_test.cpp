// Casts, activations and norms on an emulated GPU beside the CPU backend.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <tape8/core/error.hpp>
#include <tape8/ops/activation.hpp>

#include "cuda/both_backends.hpp"

namespace tape8::test {
namespace {

using Shape2 = std::array<std::int64_t, 2>;
constexpr Shape2 kShapes[] = {{1, 1}, {3, 17}, {33, 129}, {70, 48}, {2, 9000}, {0, 5}, {4, 0}};

/// Errors of f32 arithmetic in another order, and of f64.
double limit_of(DType dtype) { return dtype == DType::f64 ? 1e-13 : 1e-6; }

Tensor spread(const Shape& shape, unsigned seed, DType dtype, double most) {
  return random_tensor(shape, seed, dtype, -most, most);
}

/// At most one FP8 code apart, on at most 1e-4 of the elements.
void check_codes(const Pair& codes) {
  const std::vector<std::uint8_t> cpu = bytes_on_host(codes.cpu);
  const std::vector<std::uint8_t> gpu = bytes_on_host(codes.gpu);
  REQUIRE(cpu.size() == gpu.size());
  std::size_t different = 0;
  int most = 0;
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    most = std::max(most, std::abs(cpu[i] - gpu[i]));
    different += cpu[i] == gpu[i] ? 0 : 1;
  }
  CHECK(most <= 1);
  CHECK(static_cast<double>(different) <= std::max(1.0, 1e-4 * static_cast<double>(cpu.size())));
}

TEST_CASE("cuda: cast: bytes, amax and dbias are the CPU's") {
  for (const Shape2& shape : kShapes) {
    CAPTURE(shape[0]);
    CAPTURE(shape[1]);
    for (const DType from : {DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::f64}) {
      for (const DType to : {DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2}) {
        if (from == DType::f64 && bits(to) == 8) continue;
        CAPTURE(to_string(from));
        CAPTURE(to_string(to));
        const Pair x(spread({shape[0], shape[1]}, 1, from, 300.0));
        Pair y = results({shape[0], shape[1]}, to);
        Pair amax = results({}, DType::f32), scale(Tensor::from({1.7F}, {}));
        Pair dbias = results({shape[1]}, from == DType::f64 ? DType::f64 : DType::f32);
        on_both([&](Backend& backend, const Device& device) {
          Output output = y.output(device);
          output.amax = amax.data<Amax>(device);
          if (bits(to) == 8) output.scale = scale.data<Scale>(device);
          backend.cast({.rows = shape[0],
                        .cols = shape[1],
                        .x = x.input(device),
                        .y = output,
                        .dbias = dbias.data(device)});
        });
        CHECK(y.equal());
        CHECK(amax.equal());
        if (shape[1] > 0) CHECK(dbias.error() < limit_of(dbias.cpu.dtype()));
      }
    }
  }
}

std::vector<ActivationType> activations() {
  std::vector<ActivationType> all{Act::linear,     Act::gelu,         Act::silu,
                                  Act::sigmoid,    Act::relu,         Act::squared_relu,
                                  Act::quick_gelu, Act::clamped_silu, Act::clamped_linear};
  all.push_back(geglu);
  all.push_back(clamped_swiglu);
  all.push_back({Act::silu, Act::sigmoid, Act::linear});
  return all;
}

TEST_CASE("cuda: activation and its gradient, values and codes") {
  for (const ActivationType& type : activations()) {
    CAPTURE(to_string(type));
    for (const Shape2& shape : kShapes) {
      CAPTURE(shape[0]);
      for (const DType dtype : {DType::f32, DType::f64}) {
        CAPTURE(to_string(dtype));
        const std::int64_t rows = shape[0], cols = shape[1], x_cols = cols * type.count();
        const Pair x(spread({rows, x_cols}, 2, dtype, 9.0));
        const Pair dy(spread({rows, cols}, 3, dtype, 1.0));
        Pair y = results({rows, cols}, dtype), dx = results({rows, x_cols}, dtype);
        Pair codes = results({rows, cols}, DType::e4m3), dbias = results({x_cols}, dtype);
        on_both([&](Backend& backend, const Device& device) {
          backend.activation({.type = type,
                              .rows = rows,
                              .cols = cols,
                              .x = x.input(device),
                              .y = y.output(device)});
          if (dtype == DType::f32) {
            backend.activation({.type = type,
                                .rows = rows,
                                .cols = cols,
                                .x = x.input(device),
                                .y = codes.output(device)});
          }
          backend.activation_backward({.type = type,
                                       .rows = rows,
                                       .cols = cols,
                                       .dy = dy.input(device),
                                       .x = x.input(device),
                                       .dx = dx.output(device),
                                       .dbias = dbias.data(device)});
        });
        if (cols == 0) continue;
        CHECK(dbias.error() < 4 * limit_of(dtype));
        if (rows == 0) continue;
        CHECK(y.error() < limit_of(dtype));
        CHECK(dx.error() < limit_of(dtype));
        if (dtype == DType::f32) check_codes(codes);
      }
    }
  }
}

TEST_CASE("cuda: activation: huge values give the limits, NaN gives NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const ActivationType& type : activations()) {
    CAPTURE(to_string(type));
    for (const float value : {1e30F, -1e30F, inf, -inf, std::nanf(""), -90.0F}) {
      CAPTURE(value);
      const Pair x(Tensor::full({1, type.count()}, double{value}));
      Pair y = results({1, 1}, DType::f32);
      on_both([&](Backend& backend, const Device& device) {
        backend.activation(
            {.type = type, .rows = 1, .cols = 1, .x = x.input(device), .y = y.output(device)});
      });
      const double cpu = y.cpu.item<double>();
      const double gpu = y.gpu.item<double>();
      CHECK(((std::isnan(cpu) && std::isnan(gpu)) || cpu == gpu ||
             std::abs(cpu - gpu) < 1e-5 * std::abs(cpu)));
    }
  }
}

TEST_CASE("cuda: a custom activation is refused, and nothing written") {
  const auto cube =
      make_activation([](float x) { return x * x * x; }, [](float x) { return 3.0F * x * x; });
  const Pair x(Tensor::full({4}, 2.0));
  Pair y(Tensor::full({4}, 7.0));
  CHECK_THROWS_AS(
      gpu_backend().activation(
          {.type = cube, .rows = 1, .cols = 4, .x = x.input(kGpu), .y = y.output(kGpu)}),
      UnsupportedError);
  CHECK(y.equal());
}

TEST_CASE("cuda: norms, their statistics and gradients; a mean far above the deviations") {
  for (const Shape2& shape : kShapes) {
    CAPTURE(shape[0]);
    CAPTURE(shape[1]);
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
        // In f64 the CPU's mean is off by its last place.
        for (const double mean : {0.0, dtype == DType::f64 ? 1e3 : 1e5}) {
          CAPTURE(to_string(dtype));
          CAPTURE(mean);
          const std::int64_t rows = shape[0], cols = shape[1];
          const bool layernorm = type == NormType::layernorm;
          std::vector<double> values = values_of(spread({rows, cols}, 4, DType::f64, 1.0));
          for (double& value : values) value += mean;
          const Pair x(Tensor::from(values, {rows, cols}).to(dtype));
          const Pair dy(spread({rows, cols}, 5, dtype, 1.0));
          Pair gamma(spread({cols}, 6, dtype, 1.0)), beta(spread({cols}, 7, dtype, 1.0));
          Pair y = results({rows, cols}, dtype), mu = results({rows}, dtype);
          Pair rsigma = results({rows}, dtype), dx = results({rows, cols}, dtype);
          Pair dgamma = results({cols}, dtype), dbeta = results({cols}, dtype);
          Pair codes = results({rows, cols}, DType::e4m3), amax = results({}, DType::f32);
          on_both([&](Backend& backend, const Device& device) {
            NormArgs args{.type = type,
                          .zero_centered_gamma = !layernorm,
                          .rows = rows,
                          .cols = cols,
                          .x = x.input(device),
                          .gamma = gamma.data(device),
                          .beta = layernorm ? beta.data(device) : nullptr,
                          .y = y.output(device),
                          .mu = layernorm ? mu.data(device) : nullptr,
                          .rsigma = rsigma.data(device)};
            backend.norm(args);
            if (dtype == DType::f32) {
              args.y = codes.output(device);
              args.y.amax = amax.data<Amax>(device);
              backend.norm(args);
            }
            backend.norm_backward({.type = type,
                                   .zero_centered_gamma = !layernorm,
                                   .rows = rows,
                                   .cols = cols,
                                   .dy = dy.input(device),
                                   .x = x.input(device),
                                   .gamma = gamma.data(device),
                                   .mu = layernorm ? mu.data(device) : nullptr,
                                   .rsigma = rsigma.data(device),
                                   .dx = dx.output(device),
                                   .dgamma = dgamma.data(device),
                                   .dbeta = dbeta.data(device)});
          });
          if (cols == 0) continue;
          // dgamma is summed over rows, and a row of one value has a deviation of rounding alone.
          const double limit = 20 * limit_of(dtype) * (mean > 0.0 ? 20.0 : 1.0);
          CHECK(dbeta.error() < limit);
          if (rows == 0 || cols == 1) continue;
          CHECK(rsigma.error() < limit);
          if (layernorm) CHECK(mu.error() < limit);
          CHECK(y.error() < limit);
          CHECK(dx.error() < limit);
          CHECK(dgamma.error() < limit);
          if (dtype == DType::f32) CHECK(amax.error() < limit);
          if (dtype == DType::f32 && mean == 0.0) check_codes(codes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tape8::test
