#include "backend/cpu/dropout_mask.hpp"

#include <array>

#include <tape8/core/rng.hpp>

namespace tape8::cpu {
namespace {

constexpr std::int64_t kWords = 4;  // that one block of the generator makes

std::array<std::uint32_t, 4> words(std::uint64_t seed, std::int64_t block) {
  const auto counter = static_cast<std::uint64_t>(block);
  return philox(
      seed, {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0});
}

bool keeps(std::uint32_t word, float rate) {
  return static_cast<float>(word >> 8) * 0x1p-24F >= rate;
}

}  // namespace

bool keeps_element(std::uint64_t seed, float rate, std::int64_t index) {
  return keeps(words(seed, index / kWords)[static_cast<std::size_t>(index % kWords)], rate);
}

void keep_elements(const DropoutArgs& args, std::int64_t at, int count, float* keep) {
  std::int64_t block = -1;
  std::array<std::uint32_t, 4> block_words{};
  for (int i = 0; i < count; ++i) {
    const std::int64_t index = at + i;
    if (index / kWords != block) {
      block = index / kWords;
      block_words = words(args.seed, block);
    }
    const bool kept = keeps(block_words[static_cast<std::size_t>(index % kWords)], args.rate);
    keep[i] = kept ? 1.0F : 0.0F;
  }
}

}  // namespace tape8::cpu
