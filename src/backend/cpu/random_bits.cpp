#include "backend/cpu/random_bits.hpp"

#include <array>

#include <tape8/core/rng.hpp>

namespace tape8::cpu {

void random_bits(const StochasticRounding& rounding, Usage usage, std::int64_t at, int count,
                 std::uint16_t* to) {
  constexpr int kHalves = 8;  // that one block of the generator makes
  const std::uint64_t usage_bit = usage == Usage::columnwise ? std::uint64_t{1} << 63U : 0;
  int i = 0;
  while (i < count) {
    const auto element = static_cast<std::uint64_t>(at + i);
    const std::uint64_t block = element / kHalves | usage_bit;
    const std::array<std::uint32_t, 4> words = philox(
        rounding.key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U),
                       static_cast<std::uint32_t>(rounding.cast),
                       static_cast<std::uint32_t>(rounding.cast >> 32U)});
    for (std::size_t half = element % kHalves; half < kHalves && i < count; ++half, ++i) {
      to[i] = static_cast<std::uint16_t>(words[half / 2] >> (half % 2 * 16));
    }
  }
}

}  // namespace tape8::cpu
