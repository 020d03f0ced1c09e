#include "bench/values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tape8::tools::bench {

Tensor make_values(const Shape& shape, DType dtype, float deviation) {
  constexpr std::int64_t kPeriod = 65'537;  // odd: rows of even sizes differ
  Rng rng{1};
  const std::int64_t count = std::min(kPeriod, shape.numel());
  const Tensor period = rng.normal({count}, 0.0F, deviation, dtype);
  Tensor values = Tensor::empty(shape, dtype);
  auto* to = static_cast<char*>(values.mutable_data());
  const std::int64_t total = values.nbytes();
  for (std::int64_t at = 0; at < total; at += period.nbytes()) {
    const std::int64_t bytes = std::min(period.nbytes(), total - at);
    std::memcpy(to + at, period.data(), static_cast<std::size_t>(bytes));
  }
  return values;
}

Tensor make_kernel(const Shape& shape, Rng&) {
  const auto fan_in = static_cast<double>(shape[0]);
  return make_values(shape, DType::f32, static_cast<float>(1.0 / std::sqrt(fan_in)));
}

void touch(std::span<const Variable> weights) {
  for (const Variable& weight : weights) {
    Tensor values = weight.tensor();
    values.mutable_data();  // moves its version
  }
}

void zero_grads(std::span<Variable> leaves) {
  for (Variable& leaf : leaves) leaf.zero_grad();
}

}  // namespace tape8::tools::bench
