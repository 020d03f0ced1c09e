#pragma once

#include <string>

#include "gradcheck/run.hpp"

namespace tape8::tools::gradcheck {

/// The same inputs give the same bytes on every instruction set, with one thread and with several.
Comparison compare_isas(const Subject& subject, const RunSettings& settings);

/// Another backend's results against the CPU's, within the tolerance of the dtype.
Comparison compare_backends(const Subject& subject, const RunSettings& settings, Device other);

}  // namespace tape8::tools::gradcheck
