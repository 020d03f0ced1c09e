#include "backend/cuda/kernels.hpp"
#include "backend/cuda/map_values.hpp"

namespace tape8::cuda {
namespace {

struct CastValues {
  Source x;
  std::int64_t cols = 0;
  static constexpr int parts = 1;

  template <class Real>
  __device__ void values(std::int64_t row, std::int64_t col, int count,
                         Real (&out)[kVector]) const {
    x.load(row * cols + col, count, out);
  }
};

}  // namespace

void cast(Context& context, const CastArgs& args) {
  const bool f64 =
      args.x.dtype == DType::f64 || (args.y.data != nullptr && args.y.dtype == DType::f64);
  check_operands("cast", f64, {args.x}, {args.y});
  if (args.hadamard_amax != nullptr) refuse("cast", "has no Hadamard transform yet");
  // Without sums rows mean nothing.
  const bool flat = args.dbias == nullptr;
  const std::int64_t rows = flat ? 1 : args.rows;
  const std::int64_t cols = flat ? args.rows * args.cols : args.cols;
  with_real(f64, [&]<class Real>(Real) {
    map_values<Real>(context, rows, cols, CastValues{Source(args.x), cols}, args.y, args.dbias);
  });
}

}  // namespace tape8::cuda
