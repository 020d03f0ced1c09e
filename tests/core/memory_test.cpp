#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/memory.hpp>
#include <tape8/core/tensor.hpp>

#include "support/sanitizer.hpp"

namespace tape8 {
namespace {

/// f32 elements that fill so many bytes.
Tensor of_bytes(std::int64_t bytes) { return Tensor::empty({bytes / 4}); }

TEST_CASE("memory: live tensors are counted, views once") {
  const MemoryStats before = cpu_memory();
  {
    const Tensor t = of_bytes(1 << 16);
    const MemoryStats with = cpu_memory();
    CHECK(with.in_use_bytes >= before.in_use_bytes + (1 << 16));
    CHECK(with.in_use_bytes < before.in_use_bytes + (1 << 17));
    const Tensor view = t.slice(0, 0, 5);
    const Tensor handle = t;
    CHECK(cpu_memory().in_use_bytes == with.in_use_bytes);
    std::vector<float> own(64);
    const Tensor wrapped = Tensor::wrap(std::span<float>(own), {64});
    CHECK(cpu_memory().in_use_bytes == with.in_use_bytes);
  }
  CHECK(cpu_memory().in_use_bytes == before.in_use_bytes);
}

TEST_CASE("memory: values begin at 64 bytes, whatever the size") {
  std::vector<Tensor> all;
  for (const std::int64_t size : {0, 1, 7, 63, 64, 65, 1000, 4097, 262143, 262144, 1000003}) {
    for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
      CAPTURE(size);
      all.push_back(Tensor::zeros({size}, dtype));
      CHECK(reinterpret_cast<std::uintptr_t>(all.back().data()) % 64 == 0);
    }
  }
  // No two blocks overlap: each keeps what was written to it.
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].nbytes() > 0) {
      std::memset(all[i].mutable_data(), static_cast<int>(i + 1),
                  static_cast<std::size_t>(all[i].nbytes()));
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const auto* bytes = static_cast<const std::uint8_t*>(all[i].data());
    bool kept = true;
    for (std::int64_t b = 0; b < all[i].nbytes(); ++b) kept = kept && bytes[b] == i + 1;
    CHECK(kept);
  }
}

TEST_CASE("memory: a block that was given back is handed out again" *
          doctest::skip(test::kAddressSanitizer)) {
  for (const std::int64_t bytes : {256, 1 << 14, 1 << 21, 5 << 20}) {
    CAPTURE(bytes);
    const void* first = of_bytes(bytes).data();
    const std::int64_t calls = cpu_memory().system_calls;
    const Tensor again = of_bytes(bytes);
    CHECK(again.data() == first);
    CHECK(cpu_memory().system_calls == calls);
    CHECK(of_bytes(bytes).data() != first);  // it is in use
  }
}

TEST_CASE("memory: release_cached_memory gives large blocks back, and only unused ones" *
          doctest::skip(test::kAddressSanitizer)) {
  constexpr std::int64_t kBytes = 8 << 20;
  Tensor kept = of_bytes(kBytes);
  kept.fill(3.0);
  { const Tensor dropped = of_bytes(kBytes); }
  const MemoryStats before = cpu_memory();
  release_cached_memory();
  const MemoryStats after = cpu_memory();
  CHECK(after.reserved_bytes <= before.reserved_bytes - kBytes);
  CHECK(after.reserved_bytes >= after.in_use_bytes);
  CHECK(after.in_use_bytes == before.in_use_bytes);
  CHECK(after.system_calls == before.system_calls);
  CHECK(kept.to_vector<float>().back() == 3.0F);
  Tensor fresh = of_bytes(kBytes);
  CHECK(cpu_memory().system_calls == after.system_calls + 1);
  fresh.fill(1.0);
  CHECK(kept.to_vector<float>().front() == 3.0F);
  release_cached_memory();
  release_cached_memory();
  CHECK(fresh.to_vector<float>().back() == 1.0F);
}

TEST_CASE("memory: reserved is never less than in use" * doctest::skip(test::kAddressSanitizer)) {
  std::vector<Tensor> all;
  for (std::int64_t bytes = 64; bytes < (3 << 20); bytes = bytes * 5 / 4 / 4 * 4) {
    all.push_back(of_bytes(bytes));
    const MemoryStats stats = cpu_memory();
    CHECK(stats.reserved_bytes >= stats.in_use_bytes);
  }
}

}  // namespace
}  // namespace tape8
