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
#include "bench/other_load.hpp"
#include "bench/peer.hpp"
#include "bench/report.hpp"
#include "bench/shape.hpp"
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
  std::string shape;
  std::string device = "cpu";
  std::vector<int> threads;
  double seconds = 0.1;
  std::string json;
};

constexpr std::size_t kShapeNameWidth = 36;

std::vector<Figure> all_figures(const Device& device, const std::vector<int>& threads) {
  std::vector<Place> places;
  if (device.type == DeviceType::cpu) {
    for (const int count : threads) places.push_back({device, count});
  } else {
    places.push_back({.device = device});
  }
  std::vector<Figure> all;
  const auto append = [&all](std::vector<Figure> some) {
    std::move(some.begin(), some.end(), std::back_inserter(all));
  };
  append(gemm_figures(places));
  append(fused_figures(places));
  append(block_figures(places));
  if (device.type != DeviceType::cpu) return all;
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

/// Prints what is measured, unless the results go to standard output.
class Printer {
 public:
  Printer(bool prints, const Device& device, std::size_t name_width, const std::string& peer)
      : prints_(prints), rows_(name_width, peer) {
    if (!prints_) return;
    if (device.type == DeviceType::cpu) {
      fmt::print("tape8 {}, cpu {}, medians; {}\n", kVersion, cpu_isa(),
                 peer_name().empty() ? "no oneDNN in this build to compare with"
                                     : "matmuls beside " + peer_name());
    } else {
      fmt::print("tape8 {}, {}, medians\n", kVersion, to_string(device));
    }
    fmt::print("{}", rows_.header());
  }

  void row(const Result& result, double other_load) const {
    if (prints_) fmt::print("{}", rows_.row(result, other_load));
    std::fflush(stdout);
  }
  void line(const std::string& text) const {
    if (prints_) fmt::print("{}\n", text);
  }

 private:
  bool prints_;
  Rows rows_;
};

Status measure_figures(const std::vector<Figure>& figures, const Options& options) {
  JsonFile json(options.json);
  std::size_t width = 0;
  bool has_peer = false;
  for (const Figure& figure : figures) {
    width = std::max(width, figure.name.size());
    has_peer = has_peer || figure.has_peer;
  }
  const Printer printer(!json.is_standard_output(), device_from(options.device), width,
                        has_peer ? peer_name() : "");
  std::vector<Result> results;
  for (const Figure& figure : figures) {
    const OtherLoad others;
    results.push_back(figure.measure(options.seconds));
    printer.row(results.back(), others.share());
  }
  json.write(json_of(results));
  return Status::done;
}

Status measure_shape(const DenseShape& shape, const Options& options) {
  JsonFile json(options.json);
  const Printer printer(!json.is_standard_output(), Device{}, kShapeNameWidth, "");
  std::vector<Result> all;
  for (const int threads : options.threads) {
    const OtherLoad others;
    const std::vector<Result> results = measure_dense(shape, threads, options.seconds);
    for (const Result& result : results) printer.row(result, others.share());
    printer.line(dense_verdict(results));
    all.insert(all.end(), results.begin(), results.end());
  }
  json.write(json_of(all));
  return Status::done;
}

Status run(Options options) {
  if (options.threads.empty()) options.threads = default_threads();
  if (!options.shape.empty()) return measure_shape(dense_shape_from(options.shape), options);
  const std::vector<Figure> figures =
      filtered(all_figures(device_from(options.device), options.threads), options.filter);
  if (!options.list) return measure_figures(figures, options);
  for (const Figure& figure : figures) fmt::print("{}\n", figure.name);
  return Status::done;
}

void add_options(CLI::App& app, Options& options) {
  CLI::Option* list =
      app.add_flag("--list", options.list, "Print the names of the figures and measure none");
  CLI::Option* filter = app.add_option("--filter", options.filter,
                                       "Figures whose name has a match, such as\n"
                                       "'^gemm/e4m3/' or '/1t$' (default all)")
                            ->type_name("REGEX");
  CLI::Option* shape = app.add_option("--shape", options.shape,
                                      "Forward and backward of a dense layer of your sizes in\n"
                                      "each recipe instead, M rows of K values to M rows of N,\n"
                                      "and whether FP8 pays")
                           ->type_name("MxNxK")
                           ->excludes(list)
                           ->excludes(filter);
  app.add_option("--device", options.device,
                 "Matmuls, fused kernels and blocks on a GPU: cuda, cuda:1, ...\n"
                 "(default cpu)")
      ->type_name("NAME")
      ->check(device_name())
      ->excludes(shape);
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
