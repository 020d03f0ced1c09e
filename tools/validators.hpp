#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <CLI/CLI.hpp>

namespace tape8::tools {

// Checks of one option value; the message says what is allowed, and what was got.

CLI::Validator one_of(std::span<const std::string_view> names);
CLI::Validator whole_number(std::int64_t least, std::int64_t most = INT64_MAX);
CLI::Validator seed_number();
/// A finite number of at least 0.
CLI::Validator rate();

}  // namespace tape8::tools
