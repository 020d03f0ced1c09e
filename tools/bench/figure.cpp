#include "bench/figure.hpp"

#include <fmt/format.h>

namespace tape8::tools::bench {
namespace {

std::string to_string(Unit unit) {
  switch (unit) {
    case Unit::gflops:
      return "GFLOP/s";
    case Unit::gb_per_s:
      return "GB/s";
    case Unit::ms:
      return "ms";
    case Unit::us:
      return "us";
  }
  return "";
}

/// The figure of an execution that takes so long.
double value_of(const Subject& subject, double seconds) {
  switch (subject.unit) {
    case Unit::gflops:
    case Unit::gb_per_s:
      return subject.work / seconds * 1e-9;
    case Unit::ms:
      return seconds / subject.parts * 1e3;
    case Unit::us:
      return seconds / subject.parts * 1e6;
  }
  return 0.0;
}

}  // namespace

Result make_result(const std::string& name, const Subject& subject, double subject_seconds,
                   const Probe& probe, double probe_seconds) {
  const double least_seconds = probe_seconds / probe.work * subject.work;
  return {.name = name,
          .value = value_of(subject, subject_seconds),
          .unit = to_string(subject.unit),
          .limit = LimitResult{probe.limit, value_of(subject, least_seconds),
                               least_seconds / subject_seconds}};
}

Result measure_against(const std::string& name, const Subject& subject, const Probe& probe,
                       double seconds) {
  return measure_against(name, subject, probe, "", {}, seconds);
}

Result measure_against(const std::string& name, const Subject& subject, const Probe& probe,
                       const std::string& peer_name, const Call& peer, double seconds) {
  std::vector<Call> calls{subject.call, probe.call};
  if (peer) calls.push_back(peer);
  const std::vector<double> taken = median_seconds(calls, seconds, subject.finish);
  Result result = make_result(name, subject, taken[0], probe, taken[1]);
  if (peer) result.peer = PeerResult{peer_name, value_of(subject, taken[2])};
  return result;
}

Result measure_alone(const std::string& name, const Subject& subject, double seconds) {
  const std::vector<double> taken = median_seconds({subject.call}, seconds, subject.finish);
  return {.name = name, .value = value_of(subject, taken[0]), .unit = to_string(subject.unit)};
}

std::string threads_suffix(int threads) { return fmt::format("{}t", threads); }

}  // namespace tape8::tools::bench
