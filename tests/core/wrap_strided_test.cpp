#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/tensor.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

using test::check_throws;
using test::Values;
using test::values_of;

using Strides = std::vector<std::int64_t>;

std::array<float, 24> counted() {
  std::array<float, 24> memory{};
  std::iota(memory.begin(), memory.end(), 0.0F);
  return memory;
}

TEST_CASE("wrap_strided: elements lie where the strides say") {
  auto memory = counted();
  const auto wrapped = [&](const Shape& shape, const Strides& strides) {
    return values_of(Tensor::wrap_strided(memory.data(), shape, strides, DType::f32));
  };
  CHECK(wrapped({2, 3}, {3, 1}) == Values{0, 1, 2, 3, 4, 5});
  CHECK(wrapped({2, 3}, {1, 2}) == Values{0, 2, 4, 1, 3, 5});
  CHECK(wrapped({2, 2}, {12, 5}) == Values{0, 5, 12, 17});
  CHECK(wrapped({3}, {0}) == Values{0, 0, 0});
  CHECK(wrapped({}, {}) == Values{0});
  CHECK(wrapped({1, 2}, {1000000, 1}) == Values{0, 1});  // never stepped along
  CHECK(wrapped({0, 2}, {1, 1}).empty());
  const Tensor t = Tensor::wrap_strided(memory.data(), {2, 3}, Strides{8, 2}, DType::f32);
  CHECK(values_of(t.transpose(0, 1)) == Values{0, 8, 2, 10, 4, 12});
  CHECK(values_of(t.slice(1, 1, 3)) == Values{2, 4, 10, 12});
  CHECK(values_of(t.contiguous()) == values_of(t));
  CHECK_FALSE(t.contiguous().shares_storage(t));
}

TEST_CASE("wrap_strided: writes leave the gaps alone") {
  auto memory = counted();
  Tensor t = Tensor::wrap_strided(memory.data(), {2, 3}, Strides{12, 2}, DType::f32);
  const auto before = t.version();
  t.copy_from(Tensor::full({2, 3}, -1.0));
  CHECK(t.version() > before);
  const auto untouched = counted();
  for (std::size_t i = 0; i < memory.size(); ++i) {
    CAPTURE(i);
    const bool written = i % 12 < 6 && i % 2 == 0;
    CHECK(memory[i] == (written ? -1.0F : untouched[i]));
  }
}

TEST_CASE("wrap_strided: the deleter is called once, with the data, after the last handle") {
  auto memory = counted();
  int calls = 0;
  {
    Tensor t =
        Tensor::wrap_strided(memory.data(), {2, 3}, Strides{8, 2}, DType::f32, [&](void* data) {
          CHECK(data == memory.data());
          ++calls;
        });
    const Tensor view = t.slice(0, 1, 2);
    t = Tensor{};
    CHECK(calls == 0);
    CHECK(values_of(view) == Values{8, 10, 12});
  }
  CHECK(calls == 1);
}

TEST_CASE("wrap_strided: refusals call no deleter") {
  auto memory = counted();
  int calls = 0;
  const auto call = [&](void* data, const Shape& shape, const Strides& strides,
                        DType dtype = DType::f32) {
    return [&calls, data, shape, strides, dtype] {
      (void)Tensor::wrap_strided(data, shape, strides, dtype, [&calls](void*) { ++calls; });
    };
  };
  void* data = memory.data();
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  check_throws<OptionError>("wrap", call(data, {2, 3}, {3}), {"strides", "1"});
  check_throws<OptionError>("wrap", call(data, {2, 3}, {6, 3, 1}), {"strides", "3"});
  check_throws<OptionError>("wrap", call(data, {2, 3}, {-3, 1}), {"strides", "-3"});
  check_throws<OptionError>("wrap", call(data, {2, 3}, {3, kHuge}), {"strides"});
  check_throws<OptionError>("wrap", call(data, {2, 3}, {kHuge / 8, kHuge / 8}), {"strides"});
  check_throws<OptionError>("wrap", call(nullptr, {2, 3}, {3, 1}), {"null"});
  check_throws<OptionError>("wrap", call(static_cast<std::byte*>(data) + 1, {2, 3}, {3, 1}),
                            {"aligned"});
  check_throws<DTypeError>("tensor", call(data, {2}, {1}, DType::e2m1), {"e2m1"});
  CHECK(calls == 0);
  CHECK_NOTHROW(call(nullptr, {0, 3}, {3, 1})());
}

}  // namespace
}  // namespace tape8
