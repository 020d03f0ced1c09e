#pragma once

#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/program.hpp"

namespace tape8::test {

/// A run of `tape8 train`, and the lines of its log.
struct Trained {
  ShellResult result;
  std::vector<nlohmann::json> events;
};

inline Trained train(const std::string& arguments) {
  const TempDir dir;
  const std::filesystem::path log = dir.path() / "log.jsonl";
  Trained trained{tape8("train --log " + log.string() + " " + arguments), {}};
  std::istringstream lines(read_text(log));
  for (std::string line; std::getline(lines, line);) {
    trained.events.push_back(nlohmann::json::parse(line));
  }
  return trained;
}

/// The events without what the clock says.
inline std::vector<nlohmann::json> timeless(const Trained& trained) {
  std::vector<nlohmann::json> events = trained.events;
  for (nlohmann::json& event : events) event.erase("step_ms");
  return events;
}

inline std::vector<nlohmann::json> summaries(const Trained& trained) {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& event : trained.events) {
    if (event.at("event") == "summary") found.push_back(event);
  }
  return found;
}

}  // namespace tape8::test
