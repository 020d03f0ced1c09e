#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace tape8::tools::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// What is timed at once: long against the clock and a thread team's start.
constexpr double kSampleSeconds = 2e-3;
constexpr int kLeastSamples = 5;
constexpr std::int64_t kMostRepeats = 1 << 24;

double seconds_of(const Call& call, std::int64_t repeats) {
  const Clock::time_point begin = Clock::now();
  for (std::int64_t i = 0; i < repeats; ++i) call();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Executions that take about a sample's time; to find them out is the warm-up.
std::int64_t repeats_for(const Call& call, double sample_seconds) {
  call();
  std::int64_t repeats = 1;
  for (;;) {
    const double taken = seconds_of(call, repeats);
    if (taken >= sample_seconds / 2 || repeats >= kMostRepeats) return repeats;
    const double wanted = static_cast<double>(repeats) * sample_seconds / std::max(taken, 1e-9);
    repeats = std::clamp(static_cast<std::int64_t>(std::ceil(wanted)), repeats * 2, kMostRepeats);
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

std::vector<double> median_seconds(const std::vector<Call>& calls, double seconds) {
  const double sample_seconds = std::min(kSampleSeconds, seconds / kLeastSamples);
  std::vector<std::int64_t> repeats;
  for (const Call& call : calls) repeats.push_back(repeats_for(call, sample_seconds));

  std::vector<std::vector<double>> samples(calls.size());
  const double total = seconds * static_cast<double>(calls.size());
  const Clock::time_point begin = Clock::now();
  do {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      samples[i].push_back(seconds_of(calls[i], repeats[i]) / static_cast<double>(repeats[i]));
    }
  } while (samples.front().size() < kLeastSamples ||
           std::chrono::duration<double>(Clock::now() - begin).count() < total);

  std::vector<double> medians;
  for (std::vector<double>& values : samples) medians.push_back(median(std::move(values)));
  return medians;
}

}  // namespace tape8::tools::bench
