#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/limits.hpp"
#include "bench/measure.hpp"

namespace tape8::tools::bench {

/// Another library's figure for the same work.
struct PeerResult {
  std::string name;
  double value = 0.0;  // in the unit of the result beside it
};

/// What cannot be beaten, in the unit of the result beside it; `share` of it is reached.
struct LimitResult {
  std::string name;
  double value = 0.0;
  double share = 0.0;
};

struct Result {
  std::string name;
  double value = 0.0;
  std::string unit;
  std::optional<LimitResult> limit;
  std::optional<PeerResult> peer;
};

/// Something to be measured. What it needs is made when it is, and gone afterwards.
struct Figure {
  std::string name;
  bool has_peer = false;  // is measured beside another library, if this build has one
  std::function<Result(double seconds)> measure;
};

/// How a figure is told: as work in a second, or as time.
enum class Unit { gflops, gb_per_s, ms, us };

/// What a figure executes, and what that takes.
struct Subject {
  Call call;
  double work = 0.0;   // of one execution, as the probe counts it
  double parts = 1.0;  // of one execution; a time is told for one of them
  Unit unit = Unit::gflops;
  Call finish;  // waits for what calls began, its own and a probe's; empty: they do it all
};

/// What a median of so many seconds, and one of the probe's, come to.
Result make_result(const std::string& name, const Subject& subject, double subject_seconds,
                   const Probe& probe, double probe_seconds);

/// Measures both, in turns.
Result measure_against(const std::string& name, const Subject& subject, const Probe& probe,
                       double seconds);
/// The same with another library's call in turn; none where `peer` is empty.
Result measure_against(const std::string& name, const Subject& subject, const Probe& probe,
                       const std::string& peer_name, const Call& peer, double seconds);
/// Where nothing is known that limits it.
Result measure_alone(const std::string& name, const Subject& subject, double seconds);

/// "1t"
std::string threads_suffix(int threads);

}  // namespace tape8::tools::bench
