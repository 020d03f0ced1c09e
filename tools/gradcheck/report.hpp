#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "gradcheck/run.hpp"

namespace tape8::tools::gradcheck {

/// A bar on standard output while cases run, if that is a terminal and `shown`.
class Bar {
 public:
  Bar(std::size_t cases, bool shown);
  ~Bar();
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;

  void done(std::size_t cases, std::size_t failed);

 private:
  std::size_t cases_;
  bool shown_;
  std::chrono::steady_clock::time_point drawn_{};
};

/// The document of --json.
std::string json_of(const std::vector<CaseResult>& results);

std::size_t count_failed(const std::vector<CaseResult>& results);
/// The failed one that is furthest off, else the one that is nearest to failing. Of at least one.
const CaseResult& worst_of(const std::vector<CaseResult>& results);

/// A line for each op, dtype and recipe.
std::string summary(const std::vector<CaseResult>& results);
/// The failed cases, each with what is wrong, but for those past `most`.
std::string failures(const std::vector<CaseResult>& results, std::size_t most);
/// The command that runs a case alone.
std::string command_for(const CaseResult& result, const RunSettings& settings);

/// What --tolerances prints.
std::string tolerances();

}  // namespace tape8::tools::gradcheck
