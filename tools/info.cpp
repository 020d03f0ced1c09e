#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <spdlog/version.h>
#include <zlib.h>

#include <tape8/tape8.hpp>

#include "command.hpp"

namespace tape8::tools {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

void print_infos(const std::vector<BackendInfo>& infos, const std::string& in_use) {
  for (const BackendInfo& info : infos) {
    std::string state = info.name == in_use ? "in use" : "available";
    if (!info.available) state = "off";
    if (!info.why_not.empty()) state += ": " + info.why_not;
    fmt::print("  {:<10} {} ({})\n", info.name, state, info.description);
  }
}

Status info() {
  fmt::print("tape8 {}\n", kVersion);
  fmt::print("compiler     {}\n", compiler());
  fmt::print("threads      {}\n", num_threads());
  fmt::print("backends\n");
  print_infos(backends(), "cpu");
  fmt::print("instruction sets of the CPU kernels, fastest first; all give the same bits\n");
  print_infos(cpu_isas(), cpu_isa());
  fmt::print("libraries\n");
  fmt::print("  {:<10} {}.{}.{}\n", "fmt", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
             FMT_VERSION % 100);
  fmt::print("  {:<10} {}.{}.{}\n", "spdlog", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH);
  fmt::print("  {:<10} {}\n", "zlib", zlibVersion());
  fmt::print("  {:<10} {}\n", "CLI11", CLI11_VERSION);
  fmt::print("  {:<10} {}.{}.{}\n", "json", NLOHMANN_JSON_VERSION_MAJOR,
             NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH);
  return Status::done;
}

}  // namespace

Command info_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "info", "Say what this build and machine have, and why a faster path is off");
  return {app, info};
}

}  // namespace tape8::tools
