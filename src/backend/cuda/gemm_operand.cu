#include "backend/cuda/block_source.hpp"
#include "backend/cuda/gemm_operand.hpp"
#include "backend/cuda/map_values.hpp"

namespace tape8::cuda {
namespace {

/// An operand's values, row-major as it is stored; zeros past its end.
struct OperandValues {
  BlockSource source;
  static constexpr int parts = 1;

  template <class Real>
  __device__ void values(std::int64_t row, std::int64_t col, int, Real (&out)[kVector]) const {
    source.load(row, col, out);
  }
};

OperandValues values_of(const GemmOperand& operand, const StoredOperand& stored) {
  OperandValues values{BlockSource::of(operand.data, operand.dtype, stored.rows, stored.cols)};
  if (is_block_scaled(operand.scaling_mode)) {
    values.source.set_blocks(operand.scaling_mode, operand.block_scale_inv, stored.k_last);
  }
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
