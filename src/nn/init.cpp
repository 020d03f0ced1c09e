#include <algorithm>
#include <cmath>

#include <tape8/nn/init.hpp>

namespace tape8 {
namespace {

double fan_in(const Shape& shape) {
  return static_cast<double>(std::max<std::int64_t>(shape.rank() == 0 ? 1 : shape[0], 1));
}

double fan_out(const Shape& shape) {
  return static_cast<double>(shape.rank() == 0 ? 1 : shape.numel(1, shape.rank()));
}

Initializer scaled_normal(double variance_times_fan_in) {
  return [=](const Shape& shape, Rng& rng) {
    return rng.normal(shape, 0.0F,
                      static_cast<float>(std::sqrt(variance_times_fan_in / fan_in(shape))));
  };
}

}  // namespace

Initializer constant(float value) {
  return [=](const Shape& shape, Rng&) { return Tensor::full(shape, value); };
}

Initializer normal(float stddev) {
  return [=](const Shape& shape, Rng& rng) { return rng.normal(shape, 0.0F, stddev); };
}

Initializer lecun_normal() { return scaled_normal(1.0); }

Initializer he_normal() { return scaled_normal(2.0); }

Initializer glorot_uniform() {
  return [](const Shape& shape, Rng& rng) {
    const auto bound = static_cast<float>(std::sqrt(6.0 / (fan_in(shape) + fan_out(shape))));
    return rng.uniform(shape, -bound, bound);
  };
}

}  // namespace tape8
