#include "autograd/recycled_vector.hpp"

#include <cstddef>
#include <memory>

#include <doctest/doctest.h>

namespace tape8 {
namespace {

struct Item {
  std::shared_ptr<int> held;
};

TEST_CASE(
    "recycled vector: the next one has the memory of the last, and nothing of what was in it") {
  const auto held = std::make_shared<int>(1);
  const Item* memory = nullptr;
  {
    RecycledVector<Item> first;
    first->resize(1000, Item{held});
    memory = first->data();
  }
  CHECK(held.use_count() == 1);
  RecycledVector<Item> second;
  CHECK(second->empty());
  REQUIRE(second->capacity() >= 1000);
  CHECK(second->data() == memory);
}

TEST_CASE("recycled vector: two at a time share nothing, and the larger memory is kept") {
  {
    RecycledVector<double> outer;
    outer->resize(10);
    RecycledVector<double> inner;
    inner->resize(5000);
    CHECK(inner->data() != outer->data());
  }
  CHECK(RecycledVector<double>()->capacity() >= 5000);
}

}  // namespace
}  // namespace tape8
