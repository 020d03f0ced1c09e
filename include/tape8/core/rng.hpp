#pragma once

#include <array>
#include <cstdint>

#include <tape8/core/dtype.hpp>
#include <tape8/core/export.hpp>
#include <tape8/core/tensor.hpp>

namespace tape8 {

/// 128 random bits of (key, counter): Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
/// numbers: as easy as 1, 2, 3", SC 2011). A pure function, so any thread may make any element.
TAPE8_API std::array<std::uint32_t, 4> philox(std::uint64_t key,
                                              std::array<std::uint32_t, 4> counter);

/// Counter-based generator: a seed and a position. The same seed gives the same bits on any machine
/// and thread count; a tensor's element i depends on the seed, the draw and i alone.
class TAPE8_API Rng {
 public:
  explicit Rng(std::uint64_t seed) : seed_(seed) {}

  /// 64 uniform bits; advances by one draw.
  std::uint64_t next();
  /// Uniform in [0, n) without bias; throws OptionError for n < 1.
  std::int64_t below(std::int64_t n);
  /// f32 tensors rounded to `dtype`; one draw each.
  Tensor uniform(const Shape& shape, float low, float high, DType dtype = DType::f32);
  Tensor normal(const Shape& shape, float mean, float stddev, DType dtype = DType::f32);
  /// An i64 tensor with 0 .. n-1 in random order (Fisher-Yates).
  Tensor permutation(std::int64_t n);
  /// An independent generator; advances this one by one draw.
  Rng split() { return Rng(next()); }

  std::uint64_t seed() const { return seed_; }
  /// Draws so far. Rng with the same seed and position continue alike.
  std::uint64_t position() const { return position_; }
  void set_position(std::uint64_t position) { position_ = position; }

 private:
  std::uint64_t seed_;
  std::uint64_t position_ = 0;
};

}  // namespace tape8
