#pragma once

#include <functional>
#include <stdexcept>

#include <CLI/CLI.hpp>

namespace tape8::tools {

/// What the program's exit status says.
enum class Status { done = 0, check_failed = 1, wrong_usage = 2, bad_input = 3 };

/// Options that are each right and do not go together; ends the program with Status::wrong_usage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A sub-command: its options, and what to do once they are parsed.
struct Command {
  CLI::App* app = nullptr;
  std::function<Status()> run;
};

/// Each adds its sub-command to the program.
Command info_command(CLI::App& program);
Command train_command(CLI::App& program);
Command gradcheck_command(CLI::App& program);
Command bench_command(CLI::App& program);

}  // namespace tape8::tools
