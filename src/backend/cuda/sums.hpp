#pragma once

#include <cstdint>

#include "backend/backend.hpp"

namespace tape8::cuda {

class Context;

/// y[0] = the sum of `count` values / divisor, summed in f64 in an order of the count alone; 0 for
/// no values.
void sum_into(Context& context, std::int64_t count, const Input& x, double divisor,
              const Output& y);

}  // namespace tape8::cuda
