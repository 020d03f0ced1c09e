#include "command.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "gradcheck/ops.hpp"
#include "gradcheck/report.hpp"
#include "json_file.hpp"
#include "validators.hpp"

namespace tape8::tools {
namespace gradcheck {
namespace {

constexpr std::size_t kFailuresShown = 20;

struct Options {
  bool list = false;
  bool tolerances = false;
  std::string filter;
  std::string backend = "cpu";
  std::string isa;
  RunSettings run;
  std::string json;
};

std::vector<Case> filtered(const std::vector<Case>& cases, const std::string& filter) {
  std::regex pattern;
  try {
    pattern.assign(filter);
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("gradcheck: --filter must be a regular expression: got {}: {}",
                                 filter, error.what()));
  }
  std::vector<Case> matching;
  std::copy_if(cases.begin(), cases.end(), std::back_inserter(matching),
               [&](const Case& one) { return std::regex_search(one.name(), pattern); });
  if (matching.empty()) {
    throw UsageError(fmt::format("gradcheck: --filter must match a case, such as {}: got {}",
                                 cases.front().name(), filter));
  }
  return matching;
}

/// The device of a backend, which must be there.
Device device_of(const std::string& name) {
  std::vector<std::string> available;
  std::string why;
  for (const BackendInfo& info : backends()) {
    if (info.available) available.push_back(info.name);
    if (info.name == name) why = info.why_not;
  }
  if (std::find(available.begin(), available.end(), name) != available.end()) {
    return device_from(name);
  }
  throw UsageError(fmt::format("gradcheck: --backend must be one of {}: got {}{}",
                               fmt::join(available, ", "), name,
                               why.empty() ? "" : fmt::format(" ({})", why)));
}

Status check(const std::vector<Case>& cases, const Options& options) {
  JsonFile json(options.json);
  const bool prints = !json.is_standard_output();
  if (!options.isa.empty()) set_cpu_isa(options.isa);
  set_num_threads(options.run.threads);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::vector<CaseResult> results;
  {
    Bar bar(cases.size(), prints);
    std::size_t failed = 0;
    for (const Case& what : cases) {
      results.push_back(run_case(what, options.run));
      failed += results.back().passed() ? 0 : 1;
      bar.done(results.size(), failed);
    }
  }
  json.write(json_of(results));
  const std::size_t failed = count_failed(results);
  if (prints) {
    const CaseResult& worst = worst_of(results);
    fmt::print("{}\n{}", summary(results), failures(results, kFailuresShown));
    fmt::print("{} cases, {} failed, {:.1f} s; cpu {}, {} threads, seed {}\n", results.size(),
               failed, std::chrono::duration<double>(Clock::now() - begin).count(), cpu_isa(),
               options.run.threads, options.run.seed);
    fmt::print("worst  {}: {}\nagain  {}\n", worst.what.name(), worst.worst.message,
               command_for(worst, options.run));
  }
  return failed == 0 ? Status::done : Status::check_failed;
}

Status run(const Options& options) {
  if (options.tolerances) {
    fmt::print("{}", tolerances());
    return Status::done;
  }
  const Device device = device_of(options.backend);
  const Subjects subjects = all_subjects();
  const std::vector<Case> cases = filtered(make_cases(subjects, device), options.filter);
  if (!options.list) return check(cases, options);
  for (const Case& one : cases) fmt::print("{}\n", one.name());
  return Status::done;
}

void add_options(CLI::App& app, Options& options) {
  app.add_flag("--list", options.list, "Print the names of the cases and run none");
  app.add_flag("--tolerances", options.tolerances, "Print the tolerances with their reasons");
  app.add_option("--filter", options.filter,
                 "Cases whose name has a match, such as\n"
                 "'^dense/bf16/delayed/' or 'swiglu' (default all)")
      ->type_name("REGEX");
  app.add_option("--backend", options.backend,
                 fmt::format("What ops run on (default {})", options.backend))
      ->type_name("NAME");
  app.add_option("--isa", options.isa,
                 "Instruction set of the CPU kernels (default that of tape8 info)")
      ->type_name("NAME");
  app.add_option("--threads", options.run.threads,
                 fmt::format("Threads an op may use (default {})", options.run.threads))
      ->type_name("N")
      ->check(whole_number(1, 4096));
  app.add_option("--seed", options.run.seed,
                 fmt::format("Of inputs and cotangents (default {})", options.run.seed))
      ->type_name("N")
      ->check(seed_number());
  app.add_option("--json", options.json, "Write every result to a file; - is standard output")
      ->type_name("FILE");
}

}  // namespace
}  // namespace gradcheck

Command gradcheck_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "gradcheck", "Check every op's results and gradients in every dtype and recipe");
  const auto options = std::make_shared<gradcheck::Options>();
  gradcheck::add_options(*app, *options);
  app->footer(
      "Names read op/dtype/recipe/options/shape. Gradients are compared with float64 central\n"
      "differences, quantized results with float64 arithmetic on the same casts; names that end\n"
      "in /isa with the bytes of every instruction set and thread count, in /cuda with the\n"
      "CPU's results. worst is the largest error as a share of its tolerance.");
  return {app, [options] { return gradcheck::run(*options); }};
}

}  // namespace tape8::tools
