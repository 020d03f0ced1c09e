#include "validators.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include <tape8/core/device.hpp>
#include <tape8/core/error.hpp>

namespace tape8::tools {
namespace {

/// The number that all of `text` spells.
template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || last != end) return std::nullopt;
  return value;
}

CLI::Validator number(const char* rule, bool (*allowed)(float value)) {
  return {[rule, allowed](std::string& text) -> std::string {
            const auto value = parse<float>(text);
            if (value && allowed(*value)) return {};
            return fmt::format("{}: got {}", rule, text);
          },
          ""};
}

}  // namespace

CLI::Validator one_of(std::span<const std::string_view> names) {
  const std::vector<std::string_view> allowed(names.begin(), names.end());
  return {[allowed](std::string& text) -> std::string {
            if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return {};
            return fmt::format("must be one of {}: got {}", fmt::join(allowed, ", "), text);
          },
          ""};
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {[least, most](std::string& text) -> std::string {
            const auto value = parse<std::int64_t>(text);
            if (value && *value >= least && *value <= most) return {};
            if (most == INT64_MAX) {
              return fmt::format("must be a whole number of at least {}: got {}", least, text);
            }
            return fmt::format("must be a whole number from {} to {}: got {}", least, most, text);
          },
          ""};
}

CLI::Validator device_name() {
  return {[](std::string& text) -> std::string {
            try {
              device_from(text);
              return {};
            } catch (const OptionError&) {
              return fmt::format("must be cpu, cuda or cuda:N: got {}", text);
            }
          },
          ""};
}

CLI::Validator seed_number() {
  return {[](std::string& text) -> std::string {
            if (parse<std::uint64_t>(text)) return {};
            return fmt::format("must be a whole number from 0 to {}: got {}", UINT64_MAX, text);
          },
          ""};
}

CLI::Validator rate() {
  return number("must be a finite number of at least 0",
                [](float value) { return std::isfinite(value) && value >= 0.0F; });
}

CLI::Validator positive() {
  return number("must be a finite number above 0",
                [](float value) { return std::isfinite(value) && value > 0.0F; });
}

CLI::Validator share() {
  return number("must be a number from 0 to below 1",
                [](float value) { return value >= 0.0F && value < 1.0F; });
}

}  // namespace tape8::tools
