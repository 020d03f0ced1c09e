#pragma once

#include <cstdint>

#include "backend/backend.hpp"

namespace tape8::cpu {

/// Random bits of 8 elements that one block of the generator makes.
inline constexpr int kPhiloxHalves = 8;
/// Elements whose bits are made together.
template <class F>
inline constexpr int kPhiloxBatch = F::Long::kLanes* kPhiloxHalves;

/// The 16 random bits of the elements of blocks `block`, `block` + 1, ..., kPhiloxBatch of them, as
/// StochasticRounding says: Philox4x32-10, a block a lane.
template <class F>
[[gnu::flatten]] void random_bits(const StochasticRounding& rounding, bool columnwise,
                                  std::uint64_t block, std::uint16_t* to) {
  using Long = typename F::Long;
  // Words lie in the low halves of lanes; what is above them does no harm.
  const Long first(block | static_cast<std::uint64_t>(columnwise) << 63U);
  const Long counter = first + Long::load(Long::kPairOrder);
  Long c0 = counter, c1 = counter >> 32;
  Long c2(rounding.cast), c3(rounding.cast >> 32U);
  auto key0 = static_cast<std::uint32_t>(rounding.key);
  auto key1 = static_cast<std::uint32_t>(rounding.key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const Long product0 = multiply_low(c0, Long(0xD2511F53U));
    const Long product1 = multiply_low(c2, Long(0xCD9E8D57U));
    c0 = (product1 >> 32) ^ c1 ^ Long(key0);
    c1 = product1;
    c2 = (product0 >> 32) ^ c3 ^ Long(key1);
    c3 = product0;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  store_pairs(join_low(c0, c1), join_low(c2, c3), to);
}

}  // namespace tape8::cpu
