#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include <tape8/autograd/variable.hpp>
#include <tape8/core/rng.hpp>
#include <tape8/nn/init.hpp>
#include <tape8/quantize/quantizer.hpp>

#include "core/fail.hpp"

namespace tape8 {

/// Products of a few sizes still fit 64 bits.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;

/// A module's size, which must be at least 1.
inline std::int64_t checked_size(std::string_view module, std::string_view name,
                                 std::int64_t size) {
  if (size < 1 || size > kMaxSize) {
    fail<OptionError>("{}: {} must be at least 1 and at most 2^40: got {}", module, name, size);
  }
  return size;
}

/// A module's quantizers. Their random stream is that of a copy of the generator, so that the same
/// seed gives the same parameters under every recipe.
inline QuantizerSet module_quantizers(const Recipe& recipe, Rng rng) {
  QuantizerSet set = make_quantizer_set(recipe);
  const auto* nvfp4 = std::get_if<NVFP4BlockScaling>(&recipe);
  if (nvfp4 != nullptr && nvfp4->stochastic_rounding) {
    set.dgrad.set_random_state({.stream = rng.next()});
  }
  return set;
}

/// A parameter with the values that an initializer makes, which are checked.
inline Variable initial_parameter(std::string_view module, const char* name,
                                  const Initializer& initializer, const Shape& shape, DType dtype,
                                  const Device& device, Rng& rng) {
  if (!is_compute(dtype)) {
    fail<DTypeError>("{}: dtype must be f64, f32, bf16 or f16: got {}", module, to_string(dtype));
  }
  if (!initializer) fail<OptionError>("{}: {}_init must be given: got none", module, name);
  const Tensor values = initializer(shape, rng);
  if (!values.defined() || values.shape() != shape) {
    fail<ShapeError>("{}: {}_init must make the shape {}: got {}", module, name, to_string(shape),
                     values.defined() ? to_string(values.shape()) : "none");
  }
  return parameter(values.to(dtype).to(device), name);
}

}  // namespace tape8
