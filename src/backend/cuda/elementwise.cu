// One read of each operand, one write of the result: the bytes a kernel moves an element are those
// of its operands' types.

#include "backend/cuda/flat.hpp"
#include "backend/cuda/kernels.hpp"
#include "core/philox.hpp"

namespace tape8::cuda {
namespace {

/// Bytes an element: a, b and y.
template <class Real>
__global__ void binary_kernel(BinaryOp op, std::int64_t count, Source a, Source b, Sink y) {
  Writer writer(y);
  for_each_vector(count, [&](std::int64_t at, int valid) {
    Real left[kVector], right[kVector];
    a.load(at, valid, left);
    b.load(at, valid, right);
    for (int i = 0; i < kVector; ++i) {
      left[i] = op == BinaryOp::add   ? left[i] + right[i]
                : op == BinaryOp::sub ? left[i] - right[i]
                                      : left[i] * right[i];
    }
    writer.store(at, valid, left);
  });
  writer.note();
}

/// Bytes an element: x and y.
template <class Real>
__global__ void scale_kernel(std::int64_t count, Source x, Real factor, Sink y) {
  Writer writer(y);
  for_each_vector(count, [&](std::int64_t at, int valid) {
    Real values[kVector];
    x.load(at, valid, values);
    for (Real& value : values) value *= factor;
    writer.store(at, valid, values);
  });
  writer.note();
}

/// The words of the generator for elements at, at + 1, ..., `at` a multiple of kVector: word e % 4
/// of block e / 4.
__device__ void random_words(std::uint64_t seed, std::int64_t at, std::uint32_t (&words)[kVector]) {
  for (int i = 0; i < kVector; i += 4) {
    const auto block = static_cast<std::uint64_t>(at + i) / 4;
    const auto four = philox4x32(
        seed, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
    for (int j = 0; j < 4; ++j) words[i + j] = four[static_cast<std::size_t>(j)];
  }
}

/// Bytes an element: x and y; the mask is computed.
template <class Real>
__global__ void dropout_kernel(std::int64_t count, Source x, float rate, Real kept,
                               std::uint64_t seed, Sink y) {
  Writer writer(y);
  for_each_vector(count, [&](std::int64_t at, int valid) {
    Real values[kVector];
    std::uint32_t words[kVector];
    x.load(at, valid, values);
    random_words(seed, at, words);
    for (int i = 0; i < kVector; ++i) {
      const bool keep = static_cast<float>(words[i] >> 8) * 0x1p-24F >= rate;
      values[i] = keep ? values[i] / kept : Real{0};
    }
    writer.store(at, valid, values);
  });
  writer.note();
}

/// Bytes an element: y; x is read once from memory, its repetitions from caches.
template <class Real>
__global__ void broadcast_kernel(std::int64_t count, std::int64_t reduced, std::int64_t inner,
                                 Source x, Real factor, Sink y) {
  Writer writer(y);
  for_each_vector(count, [&](std::int64_t at, int valid) {
    Real values[kVector];
    const auto source_of = [&](std::int64_t e) { return e / inner / reduced * inner + e % inner; };
    const std::int64_t column = at % inner;
    if (column + valid <= inner) {
      x.load(source_of(at), valid, values);
    } else if (inner == 1 && source_of(at) == source_of(at + valid - 1)) {
      const Real value = x.load_one<Real>(source_of(at));
      for (Real& each : values) each = value;
    } else {
      for (int i = 0; i < kVector; ++i) {
        values[i] = i < valid ? x.load_one<Real>(source_of(at + i)) : Real{0};
      }
    }
    for (Real& value : values) value *= factor;
    writer.store(at, valid, values);
  });
  writer.note();
}

}  // namespace

void binary(Context& context, const BinaryArgs& args) {
  const bool f64 = args.a.dtype == DType::f64 || args.b.dtype == DType::f64;
  check_operands("binary", f64, {args.a, args.b}, {args.y});
  clear_amax(args.y.amax, context.stream());
  with_real(f64, [&](auto real) {
    launch(binary_kernel<decltype(real)>, flat_config_of(context, args.count), args.op, args.count,
           Source(args.a), Source(args.b), Sink(args.y));
  });
}

void scale(Context& context, const ScaleArgs& args) {
  const bool f64 = args.x.dtype == DType::f64;
  check_operands("scale", f64, {args.x}, {args.y});
  clear_amax(args.y.amax, context.stream());
  with_real(f64, [&](auto real) {
    using Real = decltype(real);
    launch(scale_kernel<Real>, flat_config_of(context, args.count), args.count, Source(args.x),
           static_cast<Real>(args.factor), Sink(args.y));
  });
}

void dropout(Context& context, const DropoutArgs& args) {
  const bool f64 = args.x.dtype == DType::f64;
  check_operands("dropout", f64, {args.x}, {args.y});
  clear_amax(args.y.amax, context.stream());
  with_real(f64, [&](auto real) {
    using Real = decltype(real);
    const Real kept = Real{1} - static_cast<Real>(args.rate);
    launch(dropout_kernel<Real>, flat_config_of(context, args.count), args.count, Source(args.x),
           args.rate, kept, args.seed, Sink(args.y));
  });
}

void broadcast(Context& context, const BroadcastArgs& args) {
  const bool f64 = args.x.dtype == DType::f64;
  check_operands("broadcast", f64, {args.x}, {args.y});
  clear_amax(args.y.amax, context.stream());
  const std::int64_t count = args.outer * args.reduced * args.inner;
  with_real(f64, [&](auto real) {
    using Real = decltype(real);
    launch(broadcast_kernel<Real>, flat_config_of(context, count), count, args.reduced, args.inner,
           Source(args.x), static_cast<Real>(args.factor), Sink(args.y));
  });
}

}  // namespace tape8::cuda
