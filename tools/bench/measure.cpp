#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace tape8::tools::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// What is timed at once: long against the clock and a thread team's start. A call that takes
/// longer draws the others' samples up to the second, so that the same interruptions fit into them.
constexpr double kSampleSeconds = 2e-3;
constexpr double kLongestSampleSeconds = 2e-2;
constexpr int kLeastSamples = 3;
constexpr std::int64_t kMostRepeats = 1 << 24;

double seconds_of(const Call& call, std::int64_t repeats, const Call& finish) {
  const Clock::time_point begin = Clock::now();
  for (std::int64_t i = 0; i < repeats; ++i) call();
  if (finish) finish();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// About the seconds of one execution. The first one, which finds everything cold, does not count.
double estimated_seconds(const Call& call, double sample_seconds, const Call& finish) {
  seconds_of(call, 1, finish);
  for (std::int64_t repeats = 1;; repeats *= 2) {
    const double taken = seconds_of(call, repeats, finish);
    if (taken >= sample_seconds / 4 || repeats >= kMostRepeats) {
      return std::max(taken, 1e-9) / static_cast<double>(repeats);
    }
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

std::vector<double> median_seconds(const std::vector<Call>& calls, double seconds,
                                   const Call& finish) {
  double sample_seconds = std::min(kSampleSeconds, seconds / kLeastSamples);
  std::vector<double> estimates;
  for (const Call& call : calls)
    estimates.push_back(estimated_seconds(call, sample_seconds, finish));
  const double longest = *std::max_element(estimates.begin(), estimates.end());
  sample_seconds = std::max(sample_seconds, std::min(longest, kLongestSampleSeconds));

  std::vector<std::int64_t> repeats;
  std::vector<std::vector<double>> samples;
  for (const double estimate : estimates) {
    repeats.push_back(std::max<std::int64_t>(1, std::llround(sample_seconds / estimate)));
    samples.push_back({estimate});  // of long calls it is as good as any
  }
  const double total = seconds * static_cast<double>(calls.size());
  const Clock::time_point begin = Clock::now();
  do {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      samples[i].push_back(seconds_of(calls[i], repeats[i], finish) /
                           static_cast<double>(repeats[i]));
    }
  } while (samples.front().size() < kLeastSamples ||
           std::chrono::duration<double>(Clock::now() - begin).count() < total);

  std::vector<double> medians;
  for (std::vector<double>& values : samples) medians.push_back(median(std::move(values)));
  return medians;
}

}  // namespace tape8::tools::bench
