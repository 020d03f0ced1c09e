#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <tape8/tape8.hpp>

#include "command.hpp"

namespace tape8::tools {
namespace {

/// Help without what excludes what: the one line that refuses says so.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  }
};

int finish(Status status, std::string message) {
  for (char& c : message) {
    if (c == '\n') c = ' ';
  }
  fmt::print(stderr, "tape8: {}\n", message);
  return static_cast<int>(status);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) names.push_back(option->get_name());
  return names;
}

/// Says in one line what is wrong with the command line and what would be right.
std::string explain(const CLI::App& program, const std::vector<Command>& commands,
                    const CLI::ParseError& error) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const std::vector<std::string> extras = command.app->remaining();
    if (extras.empty()) return fmt::format("{}: {}", command.app->get_name(), error.what());
    return fmt::format("{}: unknown argument {}: the options are {}", command.app->get_name(),
                       extras.front(), fmt::join(option_names(*command.app), ", "));
  }
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.app->get_name());
  const std::vector<std::string> extras = program.remaining();
  return fmt::format("a sub-command must come first, one of {}: got {}", fmt::join(names, ", "),
                     extras.empty() ? "none" : extras.front());
}

int run(const std::vector<Command>& commands) {
  try {
    for (const Command& command : commands) {
      if (command.app->parsed()) return static_cast<int>(command.run());
    }
  } catch (const UsageError& error) {
    return finish(Status::wrong_usage, error.what());
  } catch (const OptionError& error) {
    return finish(Status::wrong_usage, error.what());
  } catch (const StateError& error) {
    return finish(Status::check_failed, error.what());
  } catch (const std::exception& error) {
    return finish(Status::bad_input, error.what());
  }
  return static_cast<int>(Status::done);
}

int main(int argc, char** argv) {
  CLI::App program{"FP8 training on a reverse-mode tape.", "tape8"};
  program.set_version_flag("--version", std::string("tape8 ") + kVersion, "Print the version");
  program.set_help_flag("-h,--help", "Print this help");
  program.formatter(std::make_shared<HelpFormatter>());
  program.require_subcommand(1);
  program.footer(
      "Exit status: 0 done, 1 a check failed, 2 wrong usage, 3 bad input or file.\n"
      "TAPE8_LOG=debug in the environment says which kernels run.");
  const std::vector<Command> commands{train_command(program), gradcheck_command(program),
                                      bench_command(program), info_command(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return program.exit(success);  // --help or --version
  } catch (const CLI::ParseError& error) {
    return finish(Status::wrong_usage, explain(program, commands, error));
  }
  const int status = run(commands);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return finish(Status::bad_input, "standard output could not be written");
  }
  return status;
}

}  // namespace
}  // namespace tape8::tools

int main(int argc, char** argv) { return tape8::tools::main(argc, argv); }
