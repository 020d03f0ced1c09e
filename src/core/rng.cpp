#include <cmath>
#include <numbers>
#include <utility>

#include <tape8/core/rng.hpp>

#include "core/fail.hpp"
#include "core/philox.hpp"

namespace tape8 {
namespace {

using Block = std::array<std::uint32_t, 4>;

/// The counter of one block of a draw: low half the block, high half the draw.
Block draw_block(std::uint64_t seed, std::uint64_t draw, std::uint64_t block) {
  return philox(seed, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                       static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(draw >> 32)});
}

/// 24 bits to [0, 1).
float unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> counter) {
  return philox4x32(key, counter);
}

std::uint64_t Rng::next() {
  const Block block = draw_block(seed_, position_++, 0);
  return static_cast<std::uint64_t>(block[1]) << 32 | block[0];
}

std::int64_t Rng::below(std::int64_t n) {
  if (n < 1) fail<OptionError>("rng: n must be at least 1: got {}", n);
  const auto range = static_cast<std::uint64_t>(n);
  const std::uint64_t rejected = (0 - range) % range;  // 2^64 mod n draws would favour small values
  std::uint64_t word = next();
  while (word < rejected) word = next();
  return static_cast<std::int64_t>(word % range);
}

Tensor Rng::uniform(const Shape& shape, float low, float high, DType dtype) {
  if (!(low <= high)) fail<OptionError>("rng: low must not exceed high: got {} and {}", low, high);
  Tensor result = Tensor::empty(shape);
  const std::span<float> values = result.mutable_span<float>();
  const std::uint64_t draw = position_++;
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const Block block = draw_block(seed_, draw, i / 4);
    for (std::size_t lane = 0; lane < 4 && i + lane < values.size(); ++lane) {
      values[i + lane] = low + (high - low) * unit_float(block[lane]);
    }
  }
  return result.to(dtype);
}

Tensor Rng::normal(const Shape& shape, float mean, float stddev, DType dtype) {
  if (!(stddev >= 0.0F)) fail<OptionError>("rng: stddev must not be negative: got {}", stddev);
  Tensor result = Tensor::empty(shape);
  const std::span<float> values = result.mutable_span<float>();
  const std::uint64_t draw = position_++;
  // Box and Muller: two uniforms make two normals. In f64, so that libm's last bit does not show in
  // f32.
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const Block block = draw_block(seed_, draw, i / 4);
    for (std::size_t lane = 0; lane < 4 && i + lane < values.size(); ++lane) {
      const std::size_t pair = lane & ~std::size_t{1};
      const double u = (static_cast<double>(block[pair]) + 1.0) * 0x1p-32;
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(block[pair + 1]) * 0x1p-32;
      const double radius = std::sqrt(-2.0 * std::log(u));
      const double normal = radius * (lane % 2 == 0 ? std::cos(angle) : std::sin(angle));
      values[i + lane] = static_cast<float>(mean + stddev * normal);
    }
  }
  return result.to(dtype);
}

Tensor Rng::permutation(std::int64_t n) {
  if (n < 0) fail<OptionError>("rng: n must not be negative: got {}", n);
  Tensor result = Tensor::empty({n}, DType::i64);
  const std::span<std::int64_t> values = result.mutable_span<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = i;
  Rng draws = split();
  for (std::int64_t i = n - 1; i > 0; --i) {
    std::swap(values[static_cast<std::size_t>(i)],
              values[static_cast<std::size_t>(draws.below(i + 1))]);
  }
  return result;
}

}  // namespace tape8
