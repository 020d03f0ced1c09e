#include "bench/gemm.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include <tape8/tape8.hpp>

#include "backend/backend.hpp"
#include "bench/peer.hpp"
#include "bench/values.hpp"

namespace tape8::tools::bench {
namespace {

/// What operands are stored in.
struct Format {
  std::string_view name;
  DType dtype = DType::bf16;  // before the cast, and of the result
  Recipe recipe = HighPrecision{};
};

std::array<Format, 6> formats() {
  return {{{"f32", DType::f32, HighPrecision{}},
           {"bf16", DType::bf16, HighPrecision{}},
           {"e4m3", DType::bf16, CurrentScaling{.format = Fp8Format::e4m3}},
           {"mxfp8", DType::bf16, MXFP8BlockScaling{}},
           {"float8_block", DType::bf16, Float8BlockScaling{}},
           {"nvfp4", DType::bf16, NVFP4BlockScaling{}}}};
}

constexpr std::array kLayouts{Layout::nn, Layout::nt, Layout::tn};

// The matmuls of an MLP block of 768 and 3072 over 2048 rows, and one too small for threads.
constexpr std::array<std::array<std::int64_t, 3>, 4> kSizes{
    {{2048, 3072, 768}, {768, 3072, 2048}, {2048, 768, 3072}, {32, 10, 64}}};

std::string_view to_string(Layout layout) {
  switch (layout) {
    case Layout::nn:
      return "NN";
    case Layout::nt:
      return "NT";
    case Layout::tn:
      return "TN";
  }
  return "";
}

/// A matrix as a matmul of training has it: the role and usage of its tensor.
struct Matrix {
  std::int64_t rows = 0, cols = 0;  // as stored
  TensorRole role = TensorRole::x;
  Usage usage = Usage::rowwise;
};

Matrix matrix_a(const GemmShape& shape) {
  switch (shape.layout) {
    case Layout::nn:
      return {shape.m, shape.k, TensorRole::x, Usage::rowwise};
    case Layout::nt:
      return {shape.m, shape.k, TensorRole::dgrad, Usage::rowwise};
    case Layout::tn:
      return {shape.k, shape.m, TensorRole::x, Usage::columnwise};
  }
  return {};
}

Matrix matrix_b(const GemmShape& shape) {
  switch (shape.layout) {
    case Layout::nn:
      return {shape.k, shape.n, TensorRole::kernel, Usage::columnwise};
    case Layout::nt:
      return {shape.n, shape.k, TensorRole::kernel, Usage::rowwise};
    case Layout::tn:
      return {shape.k, shape.n, TensorRole::dgrad, Usage::columnwise};
  }
  return {};
}

QuantizedTensor cast(const Matrix& matrix, const Format& format, const Device& device) {
  const Tensor values = make_values({matrix.rows, matrix.cols}, format.dtype).to(device);
  const Quantizer quantizer = make_quantizer(format.recipe, matrix.role);
  return quantizer ? quantizer.quantize(values) : QuantizedTensor(values);
}

GemmOperand operand(const QuantizedTensor& tensor, Usage usage, bool transposed) {
  const QuantizedPart& part = tensor.operand(usage);
  const bool in_blocks = is_block_scaled(part.scaling_mode);
  // A columnwise NVFP4 cast lies transposed already.
  const bool flipped = usage == Usage::columnwise && is_nvfp4(part.scaling_mode);
  const Tensor& scale_inv = in_blocks ? part.tensor_scale_inv : part.scale_inv;
  return {
      .data = part.data.data(),
      .dtype = part.data.dtype(),
      .transposed = transposed != flipped,
      .scaling_mode = part.scaling_mode,
      .scale_inv = scale_inv.defined() ? static_cast<const ScaleInv*>(scale_inv.data()) : nullptr,
      .block_scale_inv = in_blocks ? part.scale_inv.data() : nullptr,
      .hadamard = part.hadamard};
}

/// The matmul, with what it reads and writes.
Call gemm_call(const GemmShape& shape, const Format& format, const Device& device) {
  const QuantizedTensor a = cast(matrix_a(shape), format, device);
  const QuantizedTensor b = cast(matrix_b(shape), format, device);
  Tensor d = Tensor::zeros({shape.m, shape.n}, format.dtype, device);
  const GemmArgs args{.m = shape.m,
                      .n = shape.n,
                      .k = shape.k,
                      .a = operand(a, matrix_a(shape).usage, shape.layout == Layout::tn),
                      .b = operand(b, matrix_b(shape).usage, shape.layout == Layout::nt),
                      .d = {.data = d.mutable_data(), .dtype = d.dtype()}};
  return [args, a, b, d, &kernels = backend(d.device())] { kernels.gemm(args); };
}

/// On a GPU the same matmul in bf16: a share of 1.8 is 1.8 times its rate.
Probe limit_of(const GemmShape& shape, const Format& format, const Place& place) {
  if (place.is_cpu()) {
    return format.dtype == DType::f32 ? f32_peak(place.threads) : bf16_dot_peak(place.threads);
  }
  const Format bf16{"bf16", DType::bf16, HighPrecision{}};
  return {"bf16 matmul", shape.flops(), gemm_call(shape, bf16, place.device)};
}

Figure gemm_figure(const GemmShape& shape, const Format& format, const Place& place) {
  const std::string name = fmt::format("gemm/{}/{}x{}x{}/{}/{}", format.name, shape.m, shape.n,
                                       shape.k, to_string(shape.layout), place.suffix());
  return {name, place.is_cpu(), [name, shape, format, place](double seconds) {
            place.enter();
            const Subject subject{.call = gemm_call(shape, format, place.device),
                                  .work = shape.flops(),
                                  .finish = place.finish()};
            const Call peer =
                place.is_cpu() ? peer_gemm(shape, format.dtype, place.threads) : Call{};
            return measure_against(name, subject, limit_of(shape, format, place), peer_name(), peer,
                                   seconds);
          }};
}

}  // namespace

std::vector<Figure> gemm_figures(const std::vector<Place>& places) {
  std::vector<Figure> figures;
  for (const Format& format : formats()) {
    for (const auto& [m, n, k] : kSizes) {
      for (const Layout layout : kLayouts) {
        for (const Place& place : places) {
          figures.push_back(gemm_figure({m, n, k, layout}, format, place));
        }
      }
    }
  }
  return figures;
}

}  // namespace tape8::tools::bench
