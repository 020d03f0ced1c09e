#pragma once

#include <utility>

#include <fmt/format.h>

#include <tape8/core/error.hpp>

namespace tape8 {

/// Throws E with a formatted text.
template <class E, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tape8
