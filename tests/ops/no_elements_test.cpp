#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/ops/dense.hpp>
#include <tape8/ops/layernorm.hpp>
#include <tape8/ops/layernorm_dense.hpp>
#include <tape8/ops/softmax_cross_entropy.hpp>

#include "support/check_op.hpp"
#include "support/quantizer_sets.hpp"

namespace tape8 {
namespace {

using test::kComputeTypes;
using test::Op;
using test::Ran;
using test::Values;
using test::values_of;

constexpr std::int64_t kOut = 4;

/// Calls check(dtype, set) for every type, with the sets that it may have.
void for_each_set(const std::function<void(DType, const QuantizerSet&)>& check) {
  for (const DType dtype : kComputeTypes) {
    CAPTURE(to_string(dtype));
    check(dtype, {});
    if (dtype == DType::f64) continue;
    check(dtype, test::make_set({}));
    check(dtype, make_quantizer_set(CurrentScaling{}));
  }
}

Op dense_by(const QuantizerSet& set) {
  return [&set](const std::vector<Variable>& in) {
    return dense(in[0], in[1], in[2], {.quantizer_set = set});
  };
}

Op norm_dense_by(const QuantizerSet& set) {
  return [&set](const std::vector<Variable>& in) {
    return layernorm_dense(in[0], in[1], in[3], in[4], in[2], {.quantizer_set = set});
  };
}

/// x [rows..., in], kernel, bias of twos, gamma, beta.
std::vector<Tensor> inputs(const Shape& x, std::int64_t out, DType dtype) {
  const std::int64_t in = x[-1];
  return {test::random_tensor(x, 1, dtype), test::random_tensor({in, out}, 2, dtype),
          Tensor::full({out}, 2.0, dtype), test::random_tensor({in}, 3, dtype),
          test::random_tensor({in}, 4, dtype)};
}

std::vector<Tensor> first(std::size_t count, std::vector<Tensor> tensors) {
  tensors.resize(count);
  return tensors;
}

TEST_CASE("no hidden_in: each row is the bias") {
  for_each_set([](DType dtype, const QuantizerSet& set) {
    for (const Shape& x : {Shape{3, 0}, Shape{0, 0}, Shape{0}, Shape{2, 3, 0}}) {
      CAPTURE(to_string(x));
      const Values expected(static_cast<std::size_t>(x.numel(0, x.rank() - 1) * kOut), 2.0);
      const Ran plain = test::run(first(3, inputs(x, kOut, dtype)), dense_by(set));
      CHECK(values_of(plain.y) == expected);
      CHECK(plain.gradients[1].shape() == Shape{0, kOut});
      const Ran normed = test::run(inputs(x, kOut, dtype), norm_dense_by(set));
      CHECK(values_of(normed.y) == expected);
      CHECK(normed.gradients[0].shape() == x);
      const Ran norm = test::run({Tensor::zeros(x, dtype), Tensor::zeros({0}, dtype)},
                                 [&set](const std::vector<Variable>& in) {
                                   return layernorm(in[0], in[1], {}, {.quantizer = set.x});
                                 });
      CHECK(norm.y.shape() == x);
      CHECK(norm.gradients[1].shape() == Shape{0});
    }
  });
}

TEST_CASE("no hidden_out: the gradients of x, gamma and beta are zeros, not what memory held") {
  for_each_set([](DType dtype, const QuantizerSet& set) {
    const Ran plain = test::run(first(3, inputs({3, 5}, 0, dtype)), dense_by(set));
    CHECK(plain.y.shape() == Shape{3, 0});
    CHECK(values_of(plain.gradients[0]) == Values(15, 0.0));
    CHECK(plain.gradients[1].shape() == Shape{5, 0});
    const Ran normed = test::run(inputs({3, 5}, 0, dtype), norm_dense_by(set));
    CHECK(values_of(normed.gradients[0]) == Values(15, 0.0));
    CHECK(values_of(normed.gradients[3]) == Values(5, 0.0));
    CHECK(values_of(normed.gradients[4]) == Values(5, 0.0));
  });
}

TEST_CASE("no classes: rows that are all ignored cost nothing") {
  for (const DType dtype : kComputeTypes) {
    const Ran ran = test::run({Tensor::zeros({2, 0}, dtype)}, [](const std::vector<Variable>& in) {
      return softmax_cross_entropy(in[0], Tensor::full({2}, -1.0, DType::i32),
                                   {.label_smoothing = 0.5F, .ignore_index = -1});
    });
    CHECK(ran.y.item<double>() == 0.0);
    CHECK(ran.gradients[0].shape() == Shape{2, 0});
  }
}

TEST_CASE("views give the bits of their copies with casts too") {
  for_each_set([](DType dtype, const QuantizerSet& set) {
    // Each run from the same state, which a backward moves.
    const auto fresh = [&set](const std::function<Op(const QuantizerSet&)>& make) {
      return [&set, make](const std::vector<Variable>& in) {
        const QuantizerSet own = set.clone();
        return make(own)(in);
      };
    };
    test::check_views(first(3, inputs({6, 10}, 7, dtype)), fresh(dense_by));
    test::check_views(inputs({6, 10}, 7, dtype), fresh(norm_dense_by));
  });
}

}  // namespace
}  // namespace tape8
