// Ops whose results are cast with block scales: as their f32 results, cast.
#include "backend/block_cast_support.hpp"
#include "support/sanitizer.hpp"

namespace tape8::test {
namespace {

struct Size {
  std::int64_t rows, cols;
};

/// Columns in whole blocks and not, more than one tile of either kind, more than one thread's work.
constexpr Size kSizes[] = {{1, 1}, {7, 33}, {33, 129}, {130, 256}, {200, 450}, {33, 4200}};
constexpr std::size_t kSmallSizes = 4;

std::vector<float> floats_of(const Memory& memory) {
  std::vector<float> values;
  for (const double value : memory.values()) values.push_back(static_cast<float>(value));
  return values;
}

/// `run(backend, output)` computes an op of [rows, cols] values; the result holds what else it
/// writes. Checks that it is, with blocks, what a cast makes of its f32 values.
template <class Run>
void check_fused(const Size& size, const BlockFormat& format, const Run& run) {
  CAPTURE(name_of(format));
  CAPTURE(size.rows);
  CAPTURE(size.cols);
  const std::int64_t count = size.rows * size.cols;
  Memory values(DType::f32, count);
  Amax values_amax;
  {
    const auto backend = cpu::make_backend(cpu::available_isas().front());
    run(*backend, values.output(&values_amax));
  }
  const std::vector<float> floats = floats_of(values);
  REQUIRE(std::isfinite(values_amax.value));
  const std::array<float, 2> amax = cast_amaxes(floats, size.rows, size.cols, format);
  const auto results = same_everywhere([&](Backend& backend) {
    BlockMemory memory(size.rows, size.cols, format, true, true, amax[0], amax[1]);
    const BlockOutput blocks = memory.output();
    Amax noted;
    std::vector<Memory> others = run(backend, Output{.amax = &noted, .blocks = &blocks});
    std::vector<Memory> all = memory.results();
    all.insert(all.end(), others.begin(), others.end());
    all.push_back(amax_memory(noted));
    return all;
  });
  for (const Usage usage : {Usage::rowwise, Usage::columnwise}) {
    const BlockBytes expected = cast_reference(floats, size.rows, size.cols, format, usage);
    const std::size_t first = usage == Usage::rowwise ? 0 : 2;
    CHECK(holds(results[first], expected.data));
    CHECK(holds(results[first + 1], expected.scale_inv));
  }
  CHECK(results.back()[0] == values_amax.value);
}

/// The formats that differ in how rows and columns go through the kernels.
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

TEST_CASE("norm with block scales: the f32 result, cast; statistics as without") {
  for (const Size& size : affordable(kSizes, kSmallSizes)) {
    const std::int64_t rows = size.rows, cols = size.cols;
    for (const DType dtype : {DType::bf16, DType::f32}) {
      const Memory x(dtype, random_values(rows * cols, 1, 2.0, 0.3));
      const Memory gamma(DType::f32, random_values(cols, 2, 1.0, 1.0));
      const Memory beta(DType::f32, random_values(cols, 3));
      for (const NormType type : {NormType::layernorm, NormType::rmsnorm}) {
        const bool centered = type == NormType::layernorm;
        Memory mu(DType::f32, rows), rsigma(DType::f32, rows);
        const auto norm = [&](Backend& backend, const Output& y, Memory& mu_out,
                              Memory& rsigma_out) {
          backend.norm({.type = type,
                        .zero_centered_gamma = centered,
                        .rows = rows,
                        .cols = cols,
                        .x = x.input(),
                        .gamma = gamma.data(),
                        .beta = centered ? beta.data() : nullptr,
                        .y = y,
                        .mu = centered ? mu_out.data() : nullptr,
                        .rsigma = rsigma_out.data()});
        };
        Memory plain(DType::f32, rows * cols);
        norm(*cpu::make_backend(cpu::available_isas().front()), plain.output(), mu, rsigma);
        for (const BlockFormat& format : some_formats()) {
          check_fused(size, format, [&](Backend& backend, const Output& y) {
            Memory own_mu(DType::f32, rows), own_rsigma(DType::f32, rows);
            norm(backend, y, own_mu, own_rsigma);
            CHECK(own_mu == mu);
            CHECK(own_rsigma == rsigma);
            return std::vector{own_mu, own_rsigma};
          });
        }
      }
    }
  }
}

/// One part, gated, three parts, and a user's.
std::vector<ActivationType> activations() {
  static const auto own =
      make_activation([](auto x) { return x * x * x; }, [](auto x) { return 3 * x * x; });
  return {ActivationType{Act::gelu}, ActivationType{Act::silu, Act::linear},
          ActivationType{Act::sigmoid, own, Act::relu}};
}

TEST_CASE("activation with block scales: the f32 result, cast") {
  for (const Size& size : affordable(kSizes, kSmallSizes)) {
    for (const ActivationType& type : activations()) {
      CAPTURE(type.count());
      const Memory x(DType::bf16, random_values(size.rows * size.cols * type.count(), 4, 2.0));
      for (const BlockFormat& format : some_formats()) {
        check_fused(size, format, [&](Backend& backend, const Output& y) {
          backend.activation(
              {.type = type, .rows = size.rows, .cols = size.cols, .x = x.input(), .y = y});
          return std::vector<Memory>{};
        });
      }
    }
  }
}

TEST_CASE("activation_backward with block scales: the f32 result, cast, and its dbias") {
  for (const Size& size : affordable(kSizes, kSmallSizes)) {
    for (const ActivationType& type : activations()) {
      CAPTURE(type.count());
      const std::int64_t dx_cols = size.cols * type.count();
      const Memory x(DType::bf16, random_values(size.rows * dx_cols, 7, 2.0));
      const Memory dy(DType::f32, random_values(size.rows * size.cols, 8));
      Memory dx(DType::f32, size.rows * dx_cols);
      const auto backward = [&](Backend& backend, const Output& output, void* dbias) {
        backend.activation_backward({.type = type,
                                     .rows = size.rows,
                                     .cols = size.cols,
                                     .dy = dy.input(),
                                     .x = x.input(),
                                     .dx = output,
                                     .dbias = dbias});
      };
      backward(*cpu::make_backend(cpu::available_isas().front()), dx.output(), nullptr);
      std::vector<double> sums(static_cast<std::size_t>(dx_cols), 0.0);
      for (std::int64_t i = 0; i < dx.count(); ++i) {
        sums[static_cast<std::size_t>(i % dx_cols)] += dx[i];
      }
      for (const BlockFormat& format : some_formats()) {
        for (const bool with_dbias : {false, true}) {
          if (!with_dbias && size.cols > 200) continue;
          check_fused({size.rows, dx_cols}, format, [&](Backend& backend, const Output& output) {
            Memory dbias(DType::f32, with_dbias ? dx_cols : 0);
            backward(backend, output, with_dbias ? dbias.data() : nullptr);
            if (with_dbias) CHECK(relative_error(dbias, sums) < tolerance(DType::f32));
            return std::vector{dbias};
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace tape8::test
