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

Result measure_against(const std::string& name, const Subject& subject, const Probe& probe,
                       double seconds) {
  return measure_against(name, subject, probe, "", {}, seconds);
}

Result measure_against(const std::string& name, const Subject& subject, const Probe& probe,
                       const std::string& peer_name, const Call& peer, double seconds) {
  std::vector<Call> calls{subject.call, probe.call};
  if (peer) calls.push_back(peer);
  const std::vector<double> taken = median_seconds(calls, seconds);
  const double least_seconds = taken[1] / probe.work * subject.work;
  Result result{
      .name = name, .value = value_of(subject, taken[0]), .unit = to_string(subject.unit)};
  result.limit =
      LimitResult{probe.limit, value_of(subject, least_seconds), least_seconds / taken[0]};
  if (peer) result.peer = PeerResult{peer_name, value_of(subject, taken[2])};
  return result;
}

Result measure_alone(const std::string& name, const Subject& subject, double seconds) {
  const std::vector<double> taken = median_seconds({subject.call}, seconds);
  return {.name = name, .value = value_of(subject, taken[0]), .unit = to_string(subject.unit)};
}

std::string threads_suffix(int threads) { return fmt::format("{}t", threads); }

}  // namespace tape8::tools::bench
