#pragma once

#include <cstdint>

#include "backend/backend.hpp"

namespace tape8::cpu {

/// Random bits of 8 elements that one block of the generator makes.
inline constexpr int kPhiloxHalves = 8;
/// Elements whose bits are made together.
template <class F>
inline constexpr int kPhiloxBatch = F::Long::kLanes* kPhiloxHalves;

/// Where random bits go: those of blocks `block`, block + 1, ..., kPhiloxBatch of them.
struct PhiloxBatch {
  std::uint64_t block;
  std::uint16_t* to;
};

/// Some batches together, which do not wait for each other: Philox4x32-10, a block a lane.
template <class F, int N>
[[gnu::flatten]] void random_bits(const StochasticRounding& rounding, bool columnwise,
                                  const PhiloxBatch (&batches)[N]) {
  using Long = typename F::Long;
  // Words lie in the low halves of lanes; what is above them does no harm.
  Long c0[N], c1[N], c2[N], c3[N];
  for (int i = 0; i < N; ++i) {
    const Long first(batches[i].block | static_cast<std::uint64_t>(columnwise) << 63U);
    c0[i] = first + Long::load(Long::kPairOrder);
    c1[i] = c0[i] >> 32;
    c2[i] = Long(rounding.cast);
    c3[i] = Long(rounding.cast >> 32U);
  }
  Long key0(rounding.key), key1(rounding.key >> 32U);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < N; ++i) {
      const Long product0 = multiply_low(c0[i], Long(0xD2511F53U));
      const Long product1 = multiply_low(c2[i], Long(0xCD9E8D57U));
      c0[i] = (product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = product1;
      c2[i] = (product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = product0;
    }
    key0 = key0 + Long(0x9E3779B9U);
    key1 = key1 + Long(0xBB67AE85U);
  }
  for (int i = 0; i < N; ++i) {
    store_pairs(join_low(c0[i], c1[i]), join_low(c2[i], c3[i]), batches[i].to);
  }
}

}  // namespace tape8::cpu
