#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <sys/wait.h>

#include "support/temp_dir.hpp"

namespace tape8::test {

struct ShellResult {
  int status = 0;  ///< exit status; 128 + the signal where one ended the command
  std::string out;
  std::string err;
};

/// Runs a shell command to its end.
inline ShellResult shell(const std::string& command) {
  const TempDir dir;
  const std::string out = (dir.path() / "out").string();
  const std::string err = (dir.path() / "err").string();
  const int code = std::system(("{ " + command + "\n} </dev/null >" + out + " 2>" + err).c_str());
  return {WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code), read_text(out),
          read_text(err)};
}

/// True for text of one line with its end.
inline bool is_one_line(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') == 1 && text.back() == '\n';
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tape8::test
