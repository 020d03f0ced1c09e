#include <cstdlib>
#include <string_view>

#include <spdlog/sinks/stdout_color_sinks.h>

#include <tape8/core/log.hpp>

#include "core/logger.hpp"

namespace tape8 {
namespace {

spdlog::level::level_enum level_from_environment() {
  const char* value = std::getenv("TAPE8_LOG");
  const std::string_view name = value == nullptr ? "" : value;
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warn") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  return spdlog::level::off;
}

}  // namespace

spdlog::logger& logger() {
  // Never destroyed: objects with static lifetime may log while the program ends.
  static spdlog::logger& instance = [&]() -> spdlog::logger& {
    auto* made =
        new spdlog::logger("tape8", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("[%n %l] %v");
    made->set_level(level_from_environment());
    return *made;
  }();
  return instance;
}

void set_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return logger().set_level(spdlog::level::debug);
    case LogLevel::info:
      return logger().set_level(spdlog::level::info);
    case LogLevel::warn:
      return logger().set_level(spdlog::level::warn);
    case LogLevel::error:
      return logger().set_level(spdlog::level::err);
    case LogLevel::off:
      return logger().set_level(spdlog::level::off);
  }
}

LogLevel log_level() {
  switch (logger().level()) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return LogLevel::debug;
    case spdlog::level::info:
      return LogLevel::info;
    case spdlog::level::warn:
      return LogLevel::warn;
    case spdlog::level::err:
    case spdlog::level::critical:
      return LogLevel::error;
    default:
      return LogLevel::off;
  }
}

}  // namespace tape8
