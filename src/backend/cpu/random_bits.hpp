#pragma once

#include <cstdint>

#include "backend/backend.hpp"

namespace tape8::cpu {

/// The 16 random bits of elements at, at + 1, ..., `count` of them, as StochasticRounding says.
void random_bits(const StochasticRounding& rounding, Usage usage, std::int64_t at, int count,
                 std::uint16_t* to);

}  // namespace tape8::cpu
