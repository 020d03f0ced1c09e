#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/dlpack.hpp>

#include "support/expect.hpp"

// The binary interface as a consumer has it from <dlpack/dlpack.h>.
struct DLManagedTensor {
  struct {
    void* data;
    struct {
      std::int32_t type, id;
    } device;
    std::int32_t ndim;
    struct {
      std::uint8_t code, bits;
      std::uint16_t lanes;
    } dtype;
    std::int64_t* shape;
    std::int64_t* strides;
    std::uint64_t byte_offset;
  } dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

namespace tape8 {
namespace {

using test::check_throws;
using test::Values;
using test::values_of;

struct TypeRow {
  DType dtype;
  std::uint8_t code, bits;
};

// kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLBool 6, kDLFloat8_e4m3fn 10, _e5m2 12,
// _e8m0fnu 14.
constexpr std::array kTypes{
    TypeRow{DType::f64, 2, 64},  TypeRow{DType::f32, 2, 32},    TypeRow{DType::f16, 2, 16},
    TypeRow{DType::bf16, 4, 16}, TypeRow{DType::i64, 0, 64},    TypeRow{DType::i32, 0, 32},
    TypeRow{DType::u8, 1, 8},    TypeRow{DType::boolean, 6, 8}, TypeRow{DType::e4m3, 10, 8},
    TypeRow{DType::e5m2, 12, 8}, TypeRow{DType::e8m0, 14, 8}};

/// A producer's tensor, f32 [2, 3] unless changed, that counts the calls of its deleter.
struct Producer {
  alignas(64) std::array<float, 12> memory{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  std::vector<std::int64_t> shape{2, 3};
  std::vector<std::int64_t> strides;
  int deleted = 0;
  DLManagedTensor managed{};

  Producer() {
    managed.dl_tensor.data = memory.data();
    managed.dl_tensor.device = {1, 0};
    managed.dl_tensor.dtype = {2, 32, 1};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) {
      ++static_cast<Producer*>(self->manager_ctx)->deleted;
    };
  }
  DLManagedTensor* tensor() {
    managed.dl_tensor.ndim = static_cast<std::int32_t>(shape.size());
    managed.dl_tensor.shape = shape.data();
    managed.dl_tensor.strides = strides.empty() ? nullptr : strides.data();
    return &managed;
  }
};

TEST_CASE("from_dlpack: a view of the producer's memory, given back once") {
  Producer producer;
  {
    Tensor t = from_dlpack(producer.tensor());
    CHECK(t.shape() == Shape{2, 3});
    CHECK(t.dtype() == DType::f32);
    CHECK(t.data() == producer.memory.data());
    CHECK(values_of(t) == Values{0, 1, 2, 3, 4, 5});
    const Tensor part = t.slice(0, 1, 2);
    t = Tensor{};
    CHECK(producer.deleted == 0);  // `part` still holds it
    CHECK(values_of(part) == Values{3, 4, 5});
    producer.memory[3] = 33.0F;
    CHECK(values_of(part)[0] == 33.0);
  }
  CHECK(producer.deleted == 1);
}

TEST_CASE("from_dlpack: strides and offset, scalars and no elements") {
  {
    Producer producer;
    producer.strides = {1, 4};
    const Tensor t = from_dlpack(producer.tensor());
    CHECK(values_of(t) == Values{0, 4, 8, 1, 5, 9});
    CHECK_FALSE(t.is_contiguous());
  }
  {
    Producer producer;
    producer.strides = {0, 1};  // rows that repeat
    CHECK(values_of(from_dlpack(producer.tensor())) == Values{0, 1, 2, 0, 1, 2});
  }
  {
    Producer producer;
    producer.managed.dl_tensor.byte_offset = 4 * sizeof(float);
    CHECK(values_of(from_dlpack(producer.tensor())) == Values{4, 5, 6, 7, 8, 9});
  }
  {
    Producer producer;
    producer.shape = {};
    CHECK(from_dlpack(producer.tensor()).item<float>() == 0.0F);
  }
  {
    Producer producer;
    producer.shape = {0, 3};
    producer.managed.dl_tensor.data = nullptr;
    CHECK(from_dlpack(producer.tensor()).shape() == Shape{0, 3});
    CHECK(producer.deleted == 1);
  }
  {
    Producer producer;
    producer.managed.deleter = nullptr;  // allowed: nothing to give back
    CHECK(from_dlpack(producer.tensor()).numel() == 6);
  }
}

TEST_CASE("from_dlpack: every type of the table, and no other") {
  for (const TypeRow& row : kTypes) {
    CAPTURE(to_string(row.dtype));
    Producer producer;
    producer.shape = {2};
    producer.managed.dl_tensor.dtype = {row.code, row.bits, 1};
    CHECK(from_dlpack(producer.tensor()).dtype() == row.dtype);
  }
  for (unsigned code = 0; code < 20; ++code) {
    for (const unsigned bits : {1U, 4U, 8U, 16U, 32U, 64U, 128U}) {
      bool known = false;
      for (const TypeRow& row : kTypes) known = known || (row.code == code && row.bits == bits);
      if (known) continue;
      CAPTURE(code);
      CAPTURE(bits);
      Producer producer;
      producer.managed.dl_tensor.dtype = {static_cast<std::uint8_t>(code),
                                          static_cast<std::uint8_t>(bits), 1};
      check_throws<DTypeError>("from_dlpack", [&] { (void)from_dlpack(producer.tensor()); },
                               {std::to_string(code), std::to_string(bits)});
      CHECK(producer.deleted == 0);
    }
  }
}

/// Checks that a producer's tensor is refused and still belongs to it.
template <class E, class Change>
void check_refused(const Change& change, std::initializer_list<std::string_view> parts,
                   std::string_view op = "from_dlpack") {
  Producer producer;
  change(producer);
  check_throws<E>(
      op, [&] { (void)from_dlpack(producer.tensor()); }, parts);
  CHECK(producer.deleted == 0);
}

TEST_CASE("from_dlpack: what it refuses still belongs to the caller") {
  check_throws<OptionError>("from_dlpack", [] { (void)from_dlpack(nullptr); }, {"null"});
  for (const std::int32_t device : {0, 2, 3, 13}) {
    check_refused<OptionError>([&](Producer& p) { p.managed.dl_tensor.device.type = device; },
                               {"device", std::to_string(device)});
  }
  for (const std::uint16_t lanes : std::array<std::uint16_t, 3>{0, 2, 4}) {
    check_refused<OptionError>([&](Producer& p) { p.managed.dl_tensor.dtype.lanes = lanes; },
                               {"lanes", std::to_string(lanes)});
  }
  check_refused<OptionError>([](Producer& p) { p.strides = {3, -1}; }, {"strides", "-1"}, "wrap");
  check_refused<OptionError>([](Producer& p) { p.managed.dl_tensor.data = nullptr; }, {"null"},
                             "wrap");
  check_refused<OptionError>([](Producer& p) { p.managed.dl_tensor.byte_offset = 2; }, {"aligned"},
                             "wrap");
  check_refused<ShapeError>([](Producer& p) { p.shape = {2, -3}; }, {"-3"}, "shape");
  check_refused<ShapeError>([](Producer& p) { p.shape.assign(9, 1); }, {"9"}, "shape");
  Producer producer;
  DLManagedTensor* tensor = producer.tensor();
  tensor->dl_tensor.ndim = -1;
  check_throws<OptionError>("from_dlpack", [&] { (void)from_dlpack(tensor); }, {"ndim", "-1"});
  CHECK(producer.deleted == 0);
}

TEST_CASE("to_dlpack: a view that lives until the consumer lets it go") {
  Tensor t = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  const Tensor view = t.transpose(0, 1).slice(0, 1, 3);  // [2, 2]: (2 5) (3 6)
  DLManagedTensor* out = to_dlpack(view);
  REQUIRE(out != nullptr);
  const auto& dl = out->dl_tensor;
  CHECK(dl.device.type == 1);
  CHECK(dl.device.id == 0);
  CHECK(dl.dtype.lanes == 1);
  REQUIRE(dl.ndim == 2);
  CHECK(dl.shape[0] == 2);
  CHECK(dl.shape[1] == 2);
  CHECK(dl.strides[0] == 1);
  CHECK(dl.strides[1] == 3);
  const auto* first =
      reinterpret_cast<const float*>(static_cast<const std::byte*>(dl.data) + dl.byte_offset);
  CHECK(first == view.data());
  CHECK(first[0] == 2.0F);
  CHECK(first[dl.strides[0] + dl.strides[1]] == 6.0F);
  CHECK(t.use_count() == 3);
  out->deleter(out);
  CHECK(t.use_count() == 2);
}

TEST_CASE("to_dlpack: every type but e2m1, there and back") {
  for (const TypeRow& row : kTypes) {
    CAPTURE(to_string(row.dtype));
    const Tensor t = Tensor::full({3, 4, 5}, 1.0, row.dtype);
    const Tensor view = t.transpose(0, 2).slice(1, 1, 3);
    DLManagedTensor* out = to_dlpack(view);
    CHECK(out->dl_tensor.dtype.code == row.code);
    CHECK(out->dl_tensor.dtype.bits == row.bits);
    {
      const Tensor back = from_dlpack(out);
      CHECK(back.dtype() == row.dtype);
      CHECK(back.shape() == view.shape());
      CHECK(back.data() == view.data());
      CHECK(std::vector<std::int64_t>(back.strides().begin(), back.strides().end()) ==
            std::vector<std::int64_t>(view.strides().begin(), view.strides().end()));
      CHECK(values_of(back) == values_of(view));
      CHECK(t.use_count() == 3);
    }
    CHECK(t.use_count() == 2);
  }
  check_throws<DTypeError>("to_dlpack", [] { (void)to_dlpack(Tensor::zeros({2}, DType::e2m1)); },
                           {"e2m1"});
  check_throws<OptionError>("to_dlpack", [] { (void)to_dlpack(Tensor{}); }, {"none"});
}

TEST_CASE("to_dlpack: scalars, no elements, and a tensor that is gone by then") {
  DLManagedTensor* out = nullptr;
  {
    const Tensor scalar = Tensor::from({5.0F}, {});
    out = to_dlpack(scalar);
  }
  CHECK(out->dl_tensor.ndim == 0);
  CHECK(*static_cast<const float*>(out->dl_tensor.data) == 5.0F);
  out->deleter(out);
  CHECK(from_dlpack(to_dlpack(Tensor::zeros({0, 3}))).shape() == Shape{0, 3});
}

}  // namespace
}  // namespace tape8
