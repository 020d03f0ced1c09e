#include "cuda/both_backends.hpp"

namespace tape8::test {
namespace {

/// The op's y on the GPU has the CPU's bytes, and so has its amax.
template <class Run>
void check_equal(const Shape& shape, DType dtype, const Run& run) {
  Pair y = results(shape, dtype);
  Pair amax = results({1}, DType::f32);
  on_both([&](Backend& kernels, Device device) {
    Output output = y.output(device);
    output.amax = amax.data<Amax>(device);
    run(kernels, device, output);
  });
  CHECK(y.equal());
  CHECK(amax.equal());
}

TEST_CASE("cuda: add, sub and mul have the CPU's bytes") {
  for (const DType dtype : kTypes) {
    for (const std::int64_t count : kCounts) {
      for (const BinaryOp op : {BinaryOp::add, BinaryOp::sub, BinaryOp::mul}) {
        const Pair a(random_tensor({count}, 1, dtype)), b(random_tensor({count}, 2, dtype));
        check_equal({count}, dtype, [&](Backend& kernels, Device device, const Output& y) {
          kernels.binary({op, count, a.input(device), b.input(device), y});
        });
      }
    }
  }
}

TEST_CASE("cuda: scale has the CPU's bytes, to FP8 with its scale too") {
  for (const DType dtype : kTypes) {
    const Pair x(random_tensor({1003}, 3, dtype, -9.0, 9.0));
    check_equal({1003}, dtype, [&](Backend& kernels, Device device, const Output& y) {
      kernels.scale({1003, x.input(device), 1.0 / 3.0, y});
    });
  }
  const Pair x(random_tensor({1003}, 3, DType::f32, -9.0, 9.0));
  Pair scale(Tensor::full({1}, 40.0, DType::f32));
  for (const DType dtype : {DType::e4m3, DType::e5m2}) {
    check_equal({1003}, dtype, [&](Backend& kernels, Device device, Output y) {
      y.scale = scale.data<Scale>(device);
      kernels.scale({1003, x.input(device), 2.0, y});
    });
  }
}

TEST_CASE("cuda: dropout keeps the CPU's elements") {
  for (const DType dtype : kTypes) {
    for (const std::int64_t count : kCounts) {
      const Pair x(random_tensor({count}, 4, dtype, 1.0, 2.0));
      check_equal({count}, dtype, [&](Backend& kernels, Device device, const Output& y) {
        kernels.dropout({count, x.input(device), 0.3F, 0x123456789ABCDEFULL, y});
      });
    }
  }
}

TEST_CASE("cuda: broadcast has the CPU's bytes") {
  struct Case {
    std::int64_t outer, reduced, inner;
  };
  for (const DType dtype : kTypes) {
    for (const Case& c : {Case{3, 5, 7}, Case{2, 3, 64}, Case{4, 50, 1}, Case{50, 3, 1},
                          Case{1, 1, 1}, Case{0, 3, 4}, Case{3, 0, 4}, Case{2, 9, 33}}) {
      const Pair x(random_tensor({c.outer, c.inner}, 5, dtype));
      check_equal({c.outer, c.reduced, c.inner}, dtype,
                  [&](Backend& kernels, Device device, const Output& y) {
                    kernels.broadcast({c.outer, c.reduced, c.inner, x.input(device), 0.7, y});
                  });
    }
  }
}

TEST_CASE("cuda: mse_backward has the CPU's bytes") {
  for (const DType dtype : kTypes) {
    const Pair prediction(random_tensor({777}, 6, dtype)), target(random_tensor({777}, 7, dtype));
    Pair dloss(Tensor::full({1}, 1.7, dtype == DType::f64 ? DType::f64 : DType::f32));
    check_equal({777}, dtype, [&](Backend& kernels, Device device, const Output& y) {
      kernels.mse_backward(
          {777, prediction.input(device), target.input(device), dloss.data(device), y});
    });
  }
}

}  // namespace
}  // namespace tape8::test
