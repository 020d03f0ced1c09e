#pragma once

#include <functional>
#include <vector>

namespace tape8::tools::bench {

/// One execution of what is measured.
using Call = std::function<void()>;

/// Median seconds of one execution of each call, over about `seconds` for each, after a warm-up.
/// The calls take turns, so that what else the machine does falls on all of them alike. Where they
/// only begin their work, `finish` waits for it: once for the executions that are timed together.
std::vector<double> median_seconds(const std::vector<Call>& calls, double seconds,
                                   const Call& finish = {});

}  // namespace tape8::tools::bench
