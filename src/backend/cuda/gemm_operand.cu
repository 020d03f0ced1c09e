#include "backend/cuda/gemm_operand.hpp"
#include "backend/cuda/map_values.hpp"

namespace tape8::cuda {
namespace {

/// 2^(code - 127); the last code is NaN.
__device__ float decode_e8m0(std::uint8_t code) {
  if (code == 255) return NAN;
  return code == 0 ? __uint_as_float(1U << 22) : __uint_as_float(std::uint32_t{code} << 23);
}

__device__ float decode_e2m1(std::uint8_t code) {
  const unsigned exponent = code >> 1U & 3U;
  const unsigned mantissa = code & 1U;
  const float magnitude = exponent == 0 ? 0.5F * static_cast<float>(mantissa)
                                        : static_cast<float>((2U + mantissa) << exponent) * 0.25F;
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

__device__ float decode_e4m3(std::uint8_t code) {
  __nv_fp8_e4m3 value;
  value.__x = code;
  return static_cast<float>(value);
}

/// An operand's values, row-major as it is stored; zeros past its end.
struct OperandValues {
  Source source;
  ScalingMode mode = ScalingMode::none;
  const void* scales = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_blocks = 1, col_blocks = 1;  // values of a block along either axis
  std::int64_t scale_cols = 0;
  static constexpr int parts = 1;

  __device__ float scale_at(std::int64_t row, std::int64_t col) const {
    const std::int64_t index = row / row_blocks * scale_cols + col / col_blocks;
    switch (mode) {
      case ScalingMode::mxfp8_1d:
        return decode_e8m0(static_cast<const std::uint8_t*>(scales)[index]);
      case ScalingMode::float8_block_1d:
      case ScalingMode::float8_block_2d:
        return static_cast<const float*>(scales)[index];
      case ScalingMode::nvfp4_1d:
      case ScalingMode::nvfp4_2d:
        return decode_e4m3(static_cast<const std::uint8_t*>(scales)[index]);
      default:
        return 1.0F;
    }
  }

  template <class Real>
  __device__ void values(std::int64_t row, std::int64_t col, int, Real (&out)[kVector]) const {
    const std::int64_t left = row < rows ? cols - col : 0;
    const int valid = left < 0 ? 0 : left < kVector ? static_cast<int>(left) : kVector;
    for (int i = 0; i < kVector; ++i) out[i] = 0;
    if (valid == 0) return;
    if (source.dtype == DType::e2m1) {
      // Rows are whole blocks of 16 codes, two a byte, the first low.
      const std::int64_t row_bytes = (cols + 15) / 16 * 8;
      const auto* codes = static_cast<const std::uint8_t*>(source.data) + row * row_bytes + col / 2;
      for (int i = 0; i < valid; ++i) {
        const std::uint8_t pair = codes[i / 2];
        out[i] = decode_e2m1(i % 2 == 0 ? pair & 0xFU : pair >> 4U);
      }
    } else {
      source.load(row * cols + col, valid, out);
    }
    if (scales == nullptr) return;
    for (int i = 0; i < valid; ++i) out[i] *= static_cast<Real>(scale_at(row, col + i));
  }
};

OperandValues values_of(const GemmOperand& operand, const StoredOperand& stored) {
  OperandValues values;
  values.source.data = operand.data;
  values.source.dtype = operand.dtype;
  values.mode = operand.scaling_mode;
  values.rows = stored.rows;
  values.cols = stored.cols;
  if (!is_block_scaled(operand.scaling_mode)) return values;
  const ScalingBlock block = scaling_block(operand.scaling_mode);
  values.scales = operand.block_scale_inv;
  values.row_blocks = stored.k_last ? block.across : block.along;
  values.col_blocks = stored.k_last ? block.along : block.across;
  values.scale_cols = divide_up(stored.cols, values.col_blocks);
  return values;
}

__device__ float tensor_factor(const ScaleInv* a, const ScaleInv* b) {
  return (a == nullptr ? 1.0F : a->value) * (b == nullptr ? 1.0F : b->value);
}

/// One thread.
__global__ void combine_scales_kernel(const ScaleInv* a, const ScaleInv* b, float* alpha) {
  alpha[0] = tensor_factor(a, b);
  alpha[1] = 0.0F;
}

/// The product's values, scaled and with the bias.
template <class Scalar>
struct EpilogueValues {
  const Scalar* product = nullptr;
  std::int64_t stride = 0;
  const ScaleInv* a = nullptr;
  const ScaleInv* b = nullptr;
  const Scalar* bias = nullptr;
  static constexpr int parts = 1;

  template <class Real>
  __device__ void values(std::int64_t row, std::int64_t col, int count,
                         Real (&out)[kVector]) const {
    load_vector(product + row * stride + col, count, out);
    const float factor = tensor_factor(a, b);
    for (int i = 0; i < count; ++i) {
      out[i] = out[i] * static_cast<Real>(factor) + (bias == nullptr ? Real{0} : bias[col + i]);
    }
  }
};

}  // namespace

void decode_operand(Context& context, const GemmOperand& from, const OperandPlan& plan, DType dtype,
                    void* to) {
  map_values<float>(context, plan.rows, plan.cols, values_of(from, plan.stored),
                    {.data = to, .dtype = dtype});
}

void combine_scales(Context& context, const GemmArgs& args, float* alpha) {
  launch(combine_scales_kernel, {.stream = context.stream()}, args.a.scale_inv, args.b.scale_inv,
         alpha);
}

void gemm_epilogue(Context& context, const GemmArgs& args, const void* product,
                   std::int64_t stride) {
  with_real(args.d.dtype == DType::f64, [&]<class Real>(Real) {
    const EpilogueValues<Real> values{static_cast<const Real*>(product), stride, args.a.scale_inv,
                                      args.b.scale_inv, static_cast<const Real*>(args.bias)};
    map_values<Real>(context, args.m, args.n, values, args.d);
  });
}

}  // namespace tape8::cuda
