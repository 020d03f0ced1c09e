#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/tensor.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

using test::bytes_of;
using test::check_throws;

TEST_CASE("tensor: none") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK_FALSE(static_cast<bool>(none));
  CHECK(none.data() == nullptr);
  CHECK(none.nbytes() == 0);
  CHECK(none.version() == 0);
  CHECK_FALSE(none.clone().defined());
  CHECK_FALSE(none.contiguous().defined());
  CHECK_FALSE(none.to(DType::bf16).defined());
}

TEST_CASE("tensor: reading or writing none says so") {
  Tensor none;
  check_throws<StateError>("tensor", [&] { (void)none.to_vector<float>(); });
  check_throws<StateError>("tensor", [&] { (void)none.span<float>(); });
  check_throws<StateError>("tensor", [&] { (void)none.mutable_span<float>(); });
  check_throws<StateError>("tensor", [&] { none.fill(1.0); });
}

TEST_CASE("tensor: made of a size, a value, values") {
  CHECK(Tensor::empty({2, 3}).shape() == Shape{2, 3});
  CHECK(Tensor::empty({2, 3}).dtype() == DType::f32);
  CHECK(Tensor::empty({}).numel() == 1);
  CHECK(Tensor::zeros({2, 2}, DType::bf16).to_vector<float>() == std::vector<float>(4, 0.0F));
  CHECK(Tensor::full({3}, 0.1, DType::f64).to_vector<double>() == std::vector<double>(3, 0.1));
  CHECK(Tensor::full({3}, 0.1).to_vector<float>() == std::vector<float>(3, 0.1F));
  CHECK(Tensor::full({2}, 1000.0, DType::e4m3).to_vector<float>() == std::vector<float>(2, 448.0F));
  CHECK(Tensor::full({2}, 3.0, DType::i64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>(2, 3));

  const Tensor t = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  CHECK(t.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(t.strides()[0] == 3);
  CHECK(t.strides()[1] == 1);
  CHECK(t.nbytes() == 24);
  CHECK(t.is_contiguous());
  CHECK(reinterpret_cast<std::uintptr_t>(t.data()) % 64 == 0);
  CHECK(Tensor::from({true, false}, {2}).dtype() == DType::boolean);
}

TEST_CASE("tensor: from copies what it is given") {
  std::vector<float> values{1, 2, 3};
  const Tensor t = Tensor::from(values, {3});
  values[0] = 9;
  CHECK(t.to_vector<float>() == std::vector<float>{1, 2, 3});
}

TEST_CASE("tensor: from needs one value an element") {
  check_throws<ShapeError>("from", [] { Tensor::from({1.0F, 2.0F}, {3}); }, {"(3)", "3", "2"});
  check_throws<ShapeError>("from", [] { Tensor::from({1.0F, 2.0F}, {}); });
  check_throws<ShapeError>("from", [] { Tensor::from(std::vector<double>{}, {2}); });
}

TEST_CASE("tensor: wrap shares the caller's memory") {
  std::vector<float> memory{1, 2, 3, 4};
  Tensor t = Tensor::wrap(std::span<float>(memory), {2, 2});
  CHECK(t.data() == memory.data());
  t.mutable_span<float>()[3] = 7;
  CHECK(memory[3] == 7.0F);
  memory[0] = -1;
  CHECK(t.to_vector<float>() == std::vector<float>{-1, 2, 3, 7});
  CHECK(Tensor::wrap(std::span<float>(memory), {3}).numel() == 3);
  check_throws<ShapeError>("wrap", [&] { Tensor::wrap(std::span<float>(memory), {5}); },
                           {"5", "4"});
}

TEST_CASE("tensor: wrap checks the pointer") {
  alignas(8) std::array<std::uint8_t, 32> memory{};
  check_throws<OptionError>("wrap", [] { Tensor::wrap(nullptr, {1}, DType::f32); });
  check_throws<OptionError>("wrap", [&] { Tensor::wrap(memory.data() + 1, {1}, DType::bf16); });
  check_throws<OptionError>("wrap", [&] { Tensor::wrap(memory.data() + 2, {1}, DType::f32); });
  check_throws<OptionError>("wrap", [&] { Tensor::wrap(memory.data() + 4, {1}, DType::f64); });
  CHECK(Tensor::wrap(memory.data() + 1, {4}, DType::e4m3).numel() == 4);
  CHECK(Tensor::wrap(memory.data() + 2, {1}, DType::bf16).numel() == 1);
  CHECK(Tensor::wrap(nullptr, {0, 3}, DType::f32).defined());
}

TEST_CASE("tensor: the deleter runs once, when the last handle goes") {
  std::vector<float> memory(6, 1.0F);
  int calls = 0;
  void* deleted = nullptr;
  {
    Tensor view;
    {
      const Tensor t = Tensor::wrap(memory.data(), {2, 3}, DType::f32, [&](void* data) {
        ++calls;
        deleted = data;
      });
      CHECK(t.use_count() == 1);
      view = t.slice(0, 1, 2);
      const Tensor copy = t;
      CHECK(t.use_count() == 3);
      CHECK(copy.shares_storage(view));
    }
    CHECK(calls == 0);
    CHECK(view.to_vector<float>() == std::vector<float>(3, 1.0F));
  }
  CHECK(calls == 1);
  CHECK(deleted == memory.data());
}

TEST_CASE("tensor: copies share, clones do not") {
  Tensor t = Tensor::from({1.0F, 2.0F}, {2});
  const Tensor handle = t;
  const Tensor copy = t.clone();
  CHECK(t.shares_storage(handle));
  CHECK_FALSE(t.shares_storage(copy));
  t.fill(5.0);
  CHECK(handle.to_vector<float>() == std::vector<float>{5, 5});
  CHECK(copy.to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("tensor: the version moves with every change, by any handle or view") {
  Tensor t = Tensor::zeros({2, 3});
  Tensor row = t.slice(0, 0, 1);
  const Tensor other = t.clone();
  std::uint64_t before = t.version();
  const auto moved = [&] {
    const bool result = t.version() > before && row.version() == t.version();
    before = t.version();
    return result;
  };
  t.fill(1.0);
  CHECK(moved());
  row.fill(2.0);
  CHECK(moved());
  row.copy_from(Tensor::zeros({1, 3}));
  CHECK(moved());
  (void)t.mutable_data();
  CHECK(moved());
  (void)row.mutable_span<float>();
  CHECK(moved());
  (void)t.data();
  (void)t.span<float>();
  (void)t.to_vector<float>();
  (void)t.clone();
  (void)t.reshape({-1});
  CHECK(t.version() == before);
  CHECK(other.version() == Tensor::zeros({1}).clone().version());
}

TEST_CASE("tensor: spans are typed and contiguous") {
  Tensor t = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2});
  CHECK(t.span<float>()[2] == 3.0F);
  check_throws<DTypeError>("span", [&] { (void)t.span<double>(); }, {"f64", "f32"});
  check_throws<DTypeError>("span", [&] { (void)t.mutable_span<std::int32_t>(); });
  check_throws<DTypeError>("span", [&] { (void)t.to(DType::bf16).span<float>(); });
  check_throws<ShapeError>("span", [&] { (void)t.transpose(0, 1).span<float>(); });
}

TEST_CASE("tensor: item takes one element only") {
  CHECK(Tensor::from({2.5F}, {}).item<float>() == 2.5F);
  CHECK(Tensor::from({2.5F}, {1, 1}).item<double>() == 2.5);
  CHECK(Tensor::from({std::int64_t{7}}, {1}).item<std::int32_t>() == 7);
  check_throws<ShapeError>("item", [] { (void)Tensor::zeros({2}).item<float>(); }, {"(2)"});
  check_throws<ShapeError>("item", [] { (void)Tensor::zeros({0}).item<float>(); }, {"(0)"});
  check_throws<ShapeError>("item", [] { (void)Tensor{}.item<float>(); });
}

TEST_CASE("tensor: zero sizes are ordinary") {
  for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 4}}) {
    CAPTURE(to_string(shape));
    Tensor t = Tensor::zeros(shape);
    CHECK(t.defined());
    CHECK(t.numel() == 0);
    CHECK(t.nbytes() == 0);
    CHECK(t.is_contiguous());
    t.fill(1.0);
    CHECK(t.to_vector<float>().empty());
    CHECK(t.clone().shape() == shape);
    CHECK(t.to(DType::e4m3).shape() == shape);
    CHECK(t.transpose(0, -1).contiguous().numel() == 0);
    CHECK(t.reshape({0, 7}).shape() == Shape{0, 7});
    t.copy_from(Tensor::zeros(shape, DType::bf16));
    CHECK(t.slice(0, 0, 0).numel() == 0);
  }
}

TEST_CASE("tensor: sizes that no memory holds are refused, not wrapped around") {
  // The bytes of these pass 2^63 or 2^64 although the elements do not.
  for (const int power : {58, 59, 60, 61, 62}) {
    CAPTURE(power);
    const std::int64_t half = std::int64_t{1} << (power / 2);
    const Shape shape{half, (std::int64_t{1} << power) / half};
    CHECK_THROWS_AS((void)Tensor::empty(shape, DType::f32), Error);
    CHECK_THROWS_AS((void)Tensor::empty(shape, DType::f64), Error);
    float value = 0.0F;
    CHECK_THROWS_AS((void)Tensor::wrap(std::span<float>(&value, 1), shape), ShapeError);
  }
}

TEST_CASE("tensor: e2m1 packs two values a byte, the first in the low nibble") {
  const Tensor t = Tensor::from({1.0F, -6.0F, 0.5F}, {3}, DType::e2m1);
  CHECK(t.nbytes() == 2);
  CHECK(bytes_of(t)[0] == 0xF2);
  CHECK((bytes_of(t)[1] & 0x0F) == 0x01);
  CHECK(t.to_vector<float>() == std::vector<float>{1.0F, -6.0F, 0.5F});
  CHECK(t.clone().to_vector<float>() == t.to_vector<float>());
  CHECK(t.reshape({3, 1}).to_vector<float>() == t.to_vector<float>());
  check_throws<DTypeError>("tensor", [&] { (void)t.slice(0, 1, 2); }, {"e2m1"});
  check_throws<DTypeError>("tensor", [&] { (void)t.reshape({3, 1}).transpose(0, 1); }, {"e2m1"});
}

}  // namespace
}  // namespace tape8
