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
/// What device_from() takes.
CLI::Validator device_name();
/// A finite number of at least 0.
CLI::Validator rate();
/// A finite number above 0.
CLI::Validator positive();
/// A number of at least 0 and below 1.
CLI::Validator share();

}  // namespace tape8::tools
