#include "backend/cuda/activation_math.hpp"
#include "backend/cuda/block_values.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/map_values.hpp"

namespace tape8::cuda {
namespace {

/// An activation's parts, as kernels take them.
struct Parts {
  Act acts[kMaxActivationParts] = {};
  int count = 0;
  ClampedSwigluParams params;
};

Parts parts_of(const char* op, const ActivationType& type, const ActivationParams& params) {
  Parts parts{.params = params.clamped_swiglu};
  for (const ActivationPart& part : type.parts()) {
    if (part.custom() != nullptr) refuse(op, "custom parts run on the CPU");
    parts.acts[parts.count++] = part.act();
  }
  return parts;
}

/// The product of the parts.
struct ActivationValues {
  Parts activation;
  Source x;
  std::int64_t cols = 0;
  static constexpr int parts = 1;

  template <class Real>
  __device__ void values(std::int64_t row, std::int64_t col, int count,
                         Real (&out)[kVector]) const {
    for (int p = 0; p < activation.count; ++p) {
      Real in[kVector], value[kVector], unused[kVector];
      x.load((row * activation.count + p) * cols + col, count, in);
      evaluate(activation.acts[p], activation.params, in, value, unused);
      for (int i = 0; i < kVector; ++i) out[i] = p == 0 ? value[i] : out[i] * value[i];
    }
  }
};

/// dy times the derivative of the column's part, times the values of the others.
struct ActivationGradients {
  Parts activation;
  Source dy, x;
  std::int64_t cols = 0;  // of a part
  int parts = 1;

  template <class Real>
  __device__ void values(std::int64_t row, std::int64_t col, int count,
                         Real (&out)[kVector]) const {
    const int own = static_cast<int>(col / cols);
    const std::int64_t place = col - own * cols;
    dy.load(row * cols + place, count, out);
    for (int step = 0; step < activation.count; ++step) {
      // The own part comes first, then the others in their order.
      const int p = step == 0 ? own : step <= own ? step - 1 : step;
      Real in[kVector], value[kVector], derivative[kVector];
      x.load((row * activation.count + p) * cols + place, count, in);
      evaluate(activation.acts[p], activation.params, in, value, derivative);
      for (int i = 0; i < kVector; ++i) out[i] *= p == own ? derivative[i] : value[i];
    }
  }
};

}  // namespace

void activation(Context& context, const ActivationArgs& args) {
  const bool f64 = args.x.dtype == DType::f64;
  check_operands("activation", f64, {args.x}, {args.y}, BlockSupport::outputs);
  const ActivationValues values{parts_of("activation", args.type, args.params), Source(args.x),
                                args.cols};
  with_real(f64, [&]<class Real>(Real) {
    map_values_or_blocks<Real>(context, args.rows, args.cols, values, args.y);
  });
}

void activation_backward(Context& context, const ActivationBackwardArgs& args) {
  const bool f64 = args.x.dtype == DType::f64;
  check_operands("activation_backward", f64, {args.dy, args.x}, {args.dx}, BlockSupport::outputs);
  const Parts parts = parts_of("activation_backward", args.type, args.params);
  const ActivationGradients gradients{parts, Source(args.dy), Source(args.x), args.cols,
                                      parts.count};
  with_real(f64, [&]<class Real>(Real) {
    map_values_or_blocks<Real>(context, args.rows, parts.count * args.cols, gradients, args.dx,
                               args.dbias);
  });
}

}  // namespace tape8::cuda
