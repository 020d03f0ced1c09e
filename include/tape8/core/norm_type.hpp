#pragma once

#include <string_view>

#include <tape8/core/export.hpp>

namespace tape8 {

/// layernorm: (x - mu) * rsigma * gamma + beta. rmsnorm: x * rsigma * gamma.
enum class NormType { layernorm, rmsnorm };

TAPE8_API std::string_view to_string(NormType norm_type);

}  // namespace tape8
