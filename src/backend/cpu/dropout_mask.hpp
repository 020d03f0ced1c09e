#pragma once

#include <cstdint>

#include "backend/backend.hpp"

namespace tape8::cpu {

/// Whether element `index` survives: 24 uniform bits of (seed, index) against the rate.
bool keeps_element(std::uint64_t seed, float rate, std::int64_t index);

/// The same for elements at, at + 1, ...: 1 or 0 each.
void keep_elements(const DropoutArgs& args, std::int64_t at, int count, float* keep);

}  // namespace tape8::cpu
