#pragma once

#include <string>

#include <doctest/doctest.h>

#include "support/shell.hpp"

namespace tape8::test {

/// Runs the program from the root of the sources.
inline ShellResult tape8(const std::string& arguments) {
  return shell("cd '" TAPE8_SOURCE "' && '" TAPE8_PROGRAM "' " + arguments);
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
