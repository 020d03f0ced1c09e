#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/matmul.hpp>
#include <tape8/ops/transpose.hpp>

#include "support/check_op.hpp"
#include "support/matrix.hpp"

namespace tape8 {
namespace {

using test::check_close;
using test::check_throws;
using test::kComputeTypes;
using test::Ran;
using test::Values;
using test::values_of;

Variable product(const std::vector<Variable>& in) { return matmul(in[0], in[1]); }

/// Matrix `index` of a stack.
Values part(const Values& all, std::int64_t index, std::int64_t size) {
  return {all.begin() + index * size, all.begin() + (index + 1) * size};
}

void append(Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); }

struct Reference {
  Values y, da, db;

  /// A stack of products; b is one matrix when `shared`, whose gradient is then the sum.
  Reference(const Values& a, const Values& b, const Values& dy, std::int64_t batch, std::int64_t m,
            std::int64_t k, std::int64_t n, bool shared) {
    db.resize(shared ? b.size() : 0);
    for (std::int64_t i = 0; i < batch; ++i) {
      const Values a_i = part(a, i, m * k);
      const Values b_i = shared ? b : part(b, i, k * n);
      const Values dy_i = part(dy, i, m * n);
      append(y, test::matmul(a_i, b_i, m, k, n));
      append(da, test::matmul(dy_i, test::transposed(b_i, k, n), m, n, k));
      const Values db_i = test::matmul(test::transposed(a_i, m, k), dy_i, k, m, n);
      if (!shared) {
        append(db, db_i);
        continue;
      }
      for (std::size_t j = 0; j < db.size(); ++j) db[j] += db_i[j];
    }
  }
};

void check_shapes(const Shape& a_shape, const Shape& b_shape, DType dtype) {
  CAPTURE(to_string(a_shape));
  CAPTURE(to_string(b_shape));
  CAPTURE(to_string(dtype));
  const Tensor a = test::random_tensor(a_shape, 1, dtype);
  const Tensor b = test::random_tensor(b_shape, 2, dtype);
  const Ran ran = test::run({a, b}, product);
  const Shape batch = a_shape.axes(0, a_shape.rank() - 2);
  CHECK(ran.y.shape() == batch.joined({a_shape[-2], b_shape[-1]}));
  CHECK(ran.y.dtype() == dtype);
  const Reference reference(values_of(a), values_of(b), values_of(ran.dy), batch.numel(),
                            a_shape[-2], a_shape[-1], b_shape[-1], b_shape.rank() == 2);
  check_close(ran.y, reference.y);
  check_close(ran.gradients[0], reference.da);
  check_close(ran.gradients[1], reference.db);
  CHECK(ran.gradients[0].shape() == a_shape);
  CHECK(ran.gradients[1].shape() == b_shape);
  CHECK(ran.gradients[1].dtype() == dtype);
}

TEST_CASE("matmul: two matrices, a shared b, and a stack with a stack") {
  for (const DType dtype : kComputeTypes) {
    check_shapes({1, 1}, {1, 1}, dtype);
    check_shapes({9, 33}, {33, 17}, dtype);
    check_shapes({1, 767}, {767, 3}, dtype);
    check_shapes({767, 1}, {1, 5}, dtype);
    check_shapes({4, 9, 33}, {33, 17}, dtype);
    check_shapes({2, 3, 5, 7}, {7, 11}, dtype);
    check_shapes({4, 9, 33}, {4, 33, 17}, dtype);
    check_shapes({2, 3, 5, 7}, {2, 3, 7, 1}, dtype);
    check_shapes({1, 5, 7}, {1, 7, 4}, dtype);
  }
}

TEST_CASE("matmul: sizes of 0") {
  for (const DType dtype : kComputeTypes) {
    check_shapes({0, 5}, {5, 3}, dtype);
    check_shapes({4, 5}, {5, 0}, dtype);
    check_shapes({4, 0}, {0, 3}, dtype);
    check_shapes({0, 4, 5}, {5, 3}, dtype);
    check_shapes({0, 4, 5}, {0, 5, 3}, dtype);
    check_shapes({2, 0, 5}, {2, 5, 3}, dtype);
    check_shapes({2, 4, 0}, {2, 0, 3}, dtype);
  }
}

TEST_CASE("matmul: gradients equal central differences") {
  for (const auto& [a, b] :
       {std::pair<Shape, Shape>{{3, 4}, {4, 2}}, std::pair<Shape, Shape>{{2, 3, 4}, {4, 2}},
        std::pair<Shape, Shape>{{2, 3, 4}, {2, 4, 2}}}) {
    const std::int64_t batch = a.numel(0, a.rank() - 2);
    const bool shared = b.rank() == 2;
    const test::Forward forward = [batch, shared](const std::vector<Values>& in) {
      return Reference(in[0], in[1], Values(static_cast<std::size_t>(batch * 6)), batch, 3, 4, 2,
                       shared)
          .y;
    };
    test::check_op({test::random_tensor(a, 3, DType::f64), test::random_tensor(b, 4, DType::f64)},
                   product, forward);
  }
}

TEST_CASE("matmul: transposed operands, as tensors and on the tape") {
  for (const DType dtype : kComputeTypes) {
    CAPTURE(to_string(dtype));
    test::check_views(
        {test::random_tensor({6, 9}, 5, dtype), test::random_tensor({9, 4}, 6, dtype)}, product);
    test::check_views(
        {test::random_tensor({3, 6, 9}, 5, dtype), test::random_tensor({3, 9, 4}, 6, dtype)},
        product);
    const Tensor a = test::random_tensor({2, 9, 6}, 7, dtype);
    const Tensor b = test::random_tensor({2, 4, 9}, 8, dtype);
    const Ran turned = test::run({a, b}, [](const std::vector<Variable>& in) {
      return matmul(transpose(in[0], -1, -2), transpose(in[1], 1, 2));
    });
    const Ran plain = test::run({a.transpose(1, 2).clone(), b.transpose(1, 2).clone()}, product);
    CHECK(test::bytes_of(turned.y) == test::bytes_of(plain.y));
    CHECK(values_of(turned.gradients[0]) == values_of(plain.gradients[0].transpose(1, 2)));
    CHECK(values_of(turned.gradients[1]) == values_of(plain.gradients[1].transpose(1, 2)));
  }
}

TEST_CASE("matmul: a product with itself, and what is kept") {
  const Variable x = parameter(Tensor::from({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2}));
  {
    Tape tape;
    const Variable y = matmul(x, x);
    CHECK(values_of(y.tensor()) == Values{7, 10, 15, 22});
    tape.backward(y, Tensor::from({1.0F, 0.0F, 0.0F, 0.0F}, {2, 2}));
    CHECK(values_of(x.grad()) == Values{2, 3, 2, 0});  // d(x00^2 + x01 x10)
  }
  const Tensor a = test::random_tensor({8, 16}, 1);
  const Tensor b = test::random_tensor({16, 4}, 2);
  CHECK(test::bytes_kept({a, b}, product) == (8 * 16 + 16 * 4) * 4);
}

TEST_CASE("matmul: refusals") {
  constexpr const char* kOp = "matmul";
  const auto call = [](const Variable& a, const Variable& b) {
    return [a, b] { (void)matmul(a, b); };
  };
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape); };
  check_throws<ShapeError>(kOp, call(zeros({2, 3}), zeros({4, 5})),
                           {"b.shape[-2]", "a.shape[-1]", "4", "3"});
  check_throws<ShapeError>(kOp, call(zeros({3}), zeros({3, 5})), {"(3)"});
  check_throws<ShapeError>(kOp, call(zeros({2, 3}), zeros({3})), {"(3)"});
  check_throws<ShapeError>(kOp, call(zeros({4, 2, 3}), zeros({5, 3, 2})), {"(4)", "(5)"});
  check_throws<ShapeError>(kOp, call(zeros({4, 2, 3}), zeros({1, 3, 2})), {"(4)", "(1)"});
  check_throws<ShapeError>(kOp, call(zeros({2, 3}), zeros({5, 3, 2})), {"(5)"});
  check_throws<DTypeError>(kOp, call(zeros({2, 3}), zeros({3, 2}).to(DType::bf16)),
                           {"b", "f32", "bf16"});
  check_throws<DTypeError>(
      kOp, call(Tensor::zeros({2, 3}, DType::e4m3), Tensor::zeros({3, 2}, DType::e4m3)), {"e4m3"});
  check_throws<OptionError>(kOp, call({}, zeros({3, 2})), {"a", "none"});
  check_throws<OptionError>(kOp, call(zeros({3, 2}), {}), {"b", "none"});
}

}  // namespace
}  // namespace tape8
