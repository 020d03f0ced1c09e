#include "bench/other_load.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace tape8::tools::bench {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// Of this program and the ones that it has waited for.
double own_seconds() {
  double seconds = 0.0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    seconds += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  }
  return seconds;
}

}  // namespace

OtherLoad::Seconds OtherLoad::now() {
  // "cpu", then ticks of all cores: user, nice, system, idle, iowait, irq, softirq, steal.
  std::ifstream stat("/proc/stat");
  std::string label;
  std::array<double, 8> ticks{};
  stat >> label;
  for (double& count : ticks) stat >> count;
  if (!stat) return {};
  double all = 0.0;
  for (const double count : ticks) all += count;
  const double idle = ticks[3] + ticks[4];
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  return {all / per_second, (all - idle) / per_second - own_seconds()};
}

OtherLoad::OtherLoad() : begin_(now()) {}

double OtherLoad::share() const {
  const Seconds end = now();
  const double all = end.all - begin_.all;
  return all > 0.0 ? std::clamp((end.others - begin_.others) / all, 0.0, 1.0) : 0.0;
}

}  // namespace tape8::tools::bench
