#include "command.hpp"

#include <algorithm>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include <tape8/tape8.hpp>

#include "bench/block.hpp"
#include "bench/fused.hpp"
#include "bench/gemm.hpp"
#include "bench/memory.hpp"
#include "bench/peer.hpp"
#include "bench/report.hpp"
#include "bench/small.hpp"
#include "bench/training.hpp"
#include "json_file.hpp"
#include "validators.hpp"

namespace tape8::tools {
namespace bench {
namespace {

struct Options {
  bool list = false;
  std::string filter;
  std::vector<int> threads;
  double seconds = 0.2;
  std::string json;
};

std::vector<Figure> all_figures(const std::vector<int>& threads) {
  std::vector<Figure> all;
  const auto append = [&all](std::vector<Figure> some) {
    std::move(some.begin(), some.end(), std::back_inserter(all));
  };
  append(gemm_figures(threads));
  append(fused_figures(threads));
  append(block_figures(threads));
  append(training_figures(threads));
  append(small_figures());
  append(memory_figures());
  return all;
}

std::vector<Figure> filtered(const std::vector<Figure>& figures, const std::string& filter) {
  std::regex pattern;
  try {
    pattern.assign(filter);
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("bench: --filter must be a regular expression: got {}: {}", filter,
                                 error.what()));
  }
  std::vector<Figure> matching;
  std::copy_if(figures.begin(), figures.end(), std::back_inserter(matching),
               [&](const Figure& figure) { return std::regex_search(figure.name, pattern); });
  if (matching.empty()) {
    throw UsageError(fmt::format("bench: --filter must match a figure, such as {}: got {}",
                                 figures.front().name, filter));
  }
  return matching;
}

std::vector<int> default_threads() {
  if (num_threads() == 1) return {1};
  return {1, num_threads()};
}

Status run(Options options) {
  if (options.threads.empty()) options.threads = default_threads();
  const std::vector<Figure> figures = filtered(all_figures(options.threads), options.filter);
  if (options.list) {
    for (const Figure& figure : figures) fmt::print("{}\n", figure.name);
    return Status::done;
  }
  JsonFile json(options.json);
  const bool prints = !json.is_standard_output();
  const Rows rows(figures, peer_name());
  if (prints) {
    fmt::print(
        "tape8 {}, cpu {}; {}\n", kVersion, cpu_isa(),
        peer_name().empty() ? "no oneDNN in this build to compare with" : "beside " + peer_name());
    fmt::print("{}", rows.header());
  }
  std::vector<Result> results;
  for (const Figure& figure : figures) {
    results.push_back(figure.measure(options.seconds));
    if (!prints) continue;
    fmt::print("{}", rows.row(results.back()));
    std::fflush(stdout);
  }
  json.write(json_of(results));
  return Status::done;
}

void add_options(CLI::App& app, Options& options) {
  app.add_flag("--list", options.list, "Print the names of the figures and measure none");
  app.add_option("--filter", options.filter,
                 "Figures whose name has a match, such as\n"
                 "'^gemm/e4m3/' or '/1t$' (default all)")
      ->type_name("REGEX");
  app.add_option("--threads", options.threads,
                 fmt::format("Thread counts, with commas between them (default {})",
                             fmt::join(default_threads(), ",")))
      ->type_name("N,...")
      ->delimiter(',')
      ->check(whole_number(1, 4096));
  app.add_option("--seconds", options.seconds,
                 fmt::format("Time for each figure (default {})", options.seconds))
      ->type_name("S")
      ->check(positive());
  app.add_option("--json", options.json, "Write every figure to a file; - is standard output")
      ->type_name("FILE");
}

}  // namespace
}  // namespace bench

Command bench_command(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("bench", "Measure speed and memory, each figure beside its limit");
  const auto options = std::make_shared<bench::Options>();
  bench::add_options(*app, *options);
  return {app, [options] { return bench::run(*options); }};
}

}  // namespace tape8::tools
