#include <cstddef>
#include <utility>

#include <tape8/autograd/tape.hpp>
#include <tape8/ops/matmul.hpp>

#include "backend/backend.hpp"
#include "core/fail.hpp"
#include "ops/checks.hpp"

namespace tape8 {
namespace {

constexpr const char* kOp = "matmul";
enum Argument : int { kA, kB };

/// `batch` products of [m, k] and [k, n]; a shared b has its batch folded into m.
struct Saved {
  Tensor a, b;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;

  void visit(SavedVisitor& visitor) const {
    visitor("a", a);
    visitor("b", b);
  }
};

/// A stack of matrices, read as they lie or transposed.
struct Stack {
  const Tensor& tensor;
  bool transposed = false;
};

/// d[i] = a[i] * b[i]; m, n and k as the product has them.
void multiply(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const Stack& a,
              const Stack& b, Tensor& d) {
  const std::int64_t size = bits(d.dtype()) / 8;
  const auto* a_data = static_cast<const std::byte*>(a.tensor.data());
  const auto* b_data = static_cast<const std::byte*>(b.tensor.data());
  auto* d_data = static_cast<std::byte*>(d.mutable_data());
  for (std::int64_t i = 0; i < batch; ++i) {
    backend(d.device())
        .gemm({.m = m,
               .n = n,
               .k = k,
               .a = {.data = a_data + i * m * k * size,
                     .dtype = a.tensor.dtype(),
                     .transposed = a.transposed},
               .b = {.data = b_data + i * k * n * size,
                     .dtype = b.tensor.dtype(),
                     .transposed = b.transposed},
               .d = {.data = d_data + i * m * n * size, .dtype = d.dtype()}});
  }
}

Saved checked(const Variable& a, const Variable& b) {
  check_given(kOp, "a", a);
  check_given(kOp, "b", b);
  check_device(kOp, "b", b.tensor(), a.tensor().device());
  check_compute_dtype(kOp, "a", a.dtype());
  check_dtype(kOp, "b", b.dtype(), "of a", a.dtype());
  const Shape& a_shape = a.shape();
  const Shape& b_shape = b.shape();
  if (a_shape.rank() < 2 || b_shape.rank() < 2) {
    fail<ShapeError>("matmul: a and b must have 2 dimensions or more: got {} and {}",
                     to_string(a_shape), to_string(b_shape));
  }
  if (a_shape[-1] != b_shape[-2]) {
    fail<ShapeError>("matmul: b.shape[-2] must equal a.shape[-1]: got {} and {}", b_shape[-2],
                     a_shape[-1]);
  }
  const Shape batch = a_shape.axes(0, a_shape.rank() - 2);
  const Shape b_batch = b_shape.axes(0, b_shape.rank() - 2);
  if (b_batch.rank() > 0 && b_batch != batch) {
    fail<ShapeError>("matmul: b must have no batch or that of a, {}: got {}", to_string(batch),
                     to_string(b_batch));
  }
  Saved saved{.a = a.tensor().contiguous(),
              .b = b.tensor().contiguous(),
              .batch = batch.numel(),
              .m = a_shape[-2],
              .n = b_shape[-1],
              .k = a_shape[-1]};
  if (b_batch.rank() == 0) saved.m *= std::exchange(saved.batch, 1);
  return saved;
}

void backward(const Saved& saved, Gradients& gradients) {
  const Tensor& dy = gradients.output();
  if (gradients.needs(kA)) {
    Tensor da = Tensor::empty(saved.a.shape(), saved.a.dtype(), dy.device());
    multiply(saved.batch, saved.m, saved.k, saved.n, {dy}, {saved.b, true}, da);
    gradients.set(kA, std::move(da));
  }
  if (gradients.needs(kB)) {
    Tensor db = Tensor::empty(saved.b.shape(), saved.b.dtype(), dy.device());
    multiply(saved.batch, saved.k, saved.n, saved.m, {saved.a, true}, {dy}, db);
    gradients.set(kB, std::move(db));
  }
}

}  // namespace

Variable matmul(const Variable& a, const Variable& b) {
  Saved saved = checked(a, b);
  Tensor y = Tensor::empty(a.shape().axes(0, a.shape().rank() - 1).joined({saved.n}), a.dtype(),
                           saved.a.device());
  multiply(saved.batch, saved.m, saved.n, saved.k, {saved.a}, {saved.b}, y);
  return record(kOp, {a, b}, std::move(y), std::move(saved), backward);
}

}  // namespace tape8
