#pragma once

#include <cstdint>
#include <string_view>

#include "core/fail.hpp"

namespace tape8 {

/// A module's size, which must be at least 1.
inline std::int64_t checked_size(std::string_view module, std::string_view name,
                                 std::int64_t size) {
  if (size < 1) fail<OptionError>("{}: {} must be at least 1: got {}", module, name, size);
  return size;
}

}  // namespace tape8
