#pragma once

#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/shell.hpp"

namespace tape8::test {

/// Runs the program from the root of the sources.
inline ShellResult tape8(const std::string& arguments) {
  return shell("cd '" TAPE8_SOURCE "' && '" TAPE8_PROGRAM "' " + arguments);
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// What a sub-command that takes --json writes to standard output.
inline nlohmann::json json_of(const std::string& command, const std::string& arguments) {
  const ShellResult result = tape8(command + " --json - " + arguments);
  INFO(result.err);
  CHECK(result.status == 0);
  return nlohmann::json::parse(result.out);
}

/// Requires that the program refuses in one line on standard error which holds `part`.
inline void check_refused(const std::string& arguments, int status, const std::string& part) {
  const ShellResult result = tape8(arguments);
  INFO("tape8 ", arguments, "\n", result.err);
  CHECK(result.status == status);
  CHECK(is_one_line(result.err));
  CHECK(result.err.starts_with("tape8: "));
  CHECK(contains(result.err, part));
}

}  // namespace tape8::test
