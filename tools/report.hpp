#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "training.hpp"

namespace tape8::tools {

/// Shows a run on standard output while it goes: a bar on a terminal, else a line for each epoch.
class Progress {
 public:
  Progress(Run run, std::int64_t epochs, std::int64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(std::int64_t done);
  void epoch(const EpochResult& result);

 private:
  Run run_;
  std::int64_t epochs_;
  std::int64_t steps_;
  bool terminal_;
  std::string latest_;  // what the last epoch came to
  std::chrono::steady_clock::time_point drawn_{};
};

/// The file of --log: JSON lines. Does nothing without a name. Throws IoError.
class RunLog {
 public:
  explicit RunLog(const std::string& file);

  void epoch(const Run& run, const EpochResult& result);
  void summary(const RunResult& result);

 private:
  void check() const;

  std::string file_;
  std::ofstream stream_;
};

/// A run, and how its logits at the start compare with fp32's.
struct ReportRow {
  RunResult result;
  double logits_difference = 0;  ///< largest, relative to fp32's largest; 0 for fp32
};

/// The closing table; with several seeds also a mean for each recipe.
std::string report(const std::vector<ReportRow>& rows);

}  // namespace tape8::tools
