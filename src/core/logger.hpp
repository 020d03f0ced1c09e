#pragma once

#include <spdlog/spdlog.h>

namespace tape8 {

/// The library's spdlog logger: standard error, off unless TAPE8_LOG or set_log_level says
/// otherwise.
spdlog::logger& logger();

}  // namespace tape8
