#pragma once

#include <tape8/core/export.hpp>

namespace tape8 {

enum class LogLevel { debug, info, warn, error, off };

/// The library is silent unless asked: by this, or by TAPE8_LOG=debug|info|warn|error in the
/// environment. Lines go to standard error.
TAPE8_API void set_log_level(LogLevel level);
TAPE8_API LogLevel log_level();

}  // namespace tape8
