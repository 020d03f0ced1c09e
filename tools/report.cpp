#include "report.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "table.hpp"

namespace tape8::tools {
namespace {

constexpr int kBarWidth = 24;
constexpr std::chrono::milliseconds kRedrawEvery{50};

std::vector<std::string> cells(const ReportRow& row, const std::string& seed,
                               std::int64_t fp32_bytes) {
  const auto& [result, difference] = row;
  const std::int64_t bytes = result.saved_for_backward_bytes;
  const bool is_fp32 = result.run.recipe == kFp32;
  return {result.run.recipe,
          seed,
          fmt::format("{:.4f}", result.last.train_loss),
          fmt::format("{:.4f}", result.last.test_loss),
          fmt::format("{:.4f}", result.last.test_accuracy),
          fmt::format("{:.3f}", result.last.step_ms),
          fmt::format("{}", bytes),
          fp32_bytes == 0
              ? "-"
              : fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>(fp32_bytes)),
          is_fp32 ? "-" : fmt::format("{:.1e}", difference)};
}

/// The mean of the rows [begin, end), which are of one recipe.
ReportRow mean(const ReportRow* begin, const ReportRow* end) {
  ReportRow mean = *begin;
  const auto average = [&](const auto& value_of) {
    double sum = 0;
    for (const ReportRow* row = begin; row != end; ++row) sum += value_of(*row);
    return sum / static_cast<double>(end - begin);
  };
  EpochResult& last = mean.result.last;
  last.train_loss = average([](const ReportRow& row) { return row.result.last.train_loss; });
  last.test_loss = average([](const ReportRow& row) { return row.result.last.test_loss; });
  last.test_accuracy = average([](const ReportRow& row) { return row.result.last.test_accuracy; });
  last.step_ms = average([](const ReportRow& row) { return row.result.last.step_ms; });
  mean.logits_difference = average([](const ReportRow& row) { return row.logits_difference; });
  return mean;
}

}  // namespace

Progress::Progress(Run run, std::int64_t epochs, std::int64_t steps)
    : run_(std::move(run)), epochs_(epochs), steps_(steps), terminal_(isatty(STDOUT_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_) fmt::print("\r\033[K{} seed {}: {}\n", run_.recipe, run_.seed, latest_);
}

void Progress::step(std::int64_t done) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - drawn_ < kRedrawEvery) return;
  drawn_ = now;
  const auto filled = static_cast<int>(kBarWidth * done / steps_);
  fmt::print("\r\033[K{} seed {} [{:=<{}}{: <{}}] {}", run_.recipe, run_.seed, "", filled, "",
             kBarWidth - filled, latest_);
  std::fflush(stdout);
}

void Progress::epoch(const EpochResult& result) {
  latest_ = fmt::format("epoch {:{}}/{}  train loss {:.4f}  test loss {:.4f}  test accuracy {:.4f}",
                        result.epoch, fmt::formatted_size("{}", epochs_), epochs_,
                        result.train_loss, result.test_loss, result.test_accuracy);
  if (terminal_) return;
  fmt::print("{} seed {}: {}\n", run_.recipe, run_.seed, latest_);
  std::fflush(stdout);
}

RunLog::RunLog(const std::string& file) : file_(file) {
  if (file_.empty()) return;
  stream_.open(file_);
  check();
}

void RunLog::check() const {
  if (!stream_)
    throw IoError(fmt::format("{}: cannot be written: {}", file_, std::strerror(errno)));
}

void RunLog::epoch(const Run& run, const EpochResult& result) {
  if (file_.empty()) return;
  stream_ << nlohmann::ordered_json{{"event", "epoch"},
                                    {"recipe", run.recipe},
                                    {"seed", run.seed},
                                    {"epoch", result.epoch},
                                    {"train_loss", result.train_loss},
                                    {"test_loss", result.test_loss},
                                    {"test_accuracy", result.test_accuracy},
                                    {"step_ms", result.step_ms}}
          << std::endl;  // a run can be followed, or looked at after it was killed
  check();
}

void RunLog::summary(const RunResult& result) {
  if (file_.empty()) return;
  stream_ << nlohmann::ordered_json{{"event", "summary"},
                                    {"recipe", result.run.recipe},
                                    {"seed", result.run.seed},
                                    {"epochs", result.last.epoch},
                                    {"train_loss", result.last.train_loss},
                                    {"test_loss", result.last.test_loss},
                                    {"test_accuracy", result.last.test_accuracy},
                                    {"step_ms", result.last.step_ms},
                                    {"saved_for_backward_bytes", result.saved_for_backward_bytes}}
          << std::endl;
  check();
}

std::string report(const std::vector<ReportRow>& rows) {
  std::int64_t fp32_bytes = 0;
  for (const auto& [result, difference] : rows) {
    if (result.run.recipe == kFp32) fp32_bytes = result.saved_for_backward_bytes;
  }
  Table table({"recipe", "seed", "train loss", "test loss", "test accuracy", "ms/step",
               "bytes kept", "/ fp32", "logits off"});
  const ReportRow* end = rows.data() + rows.size();
  for (const ReportRow* first = rows.data(); first != end;) {
    const ReportRow* row = first;
    for (; row != end && row->result.run.recipe == first->result.run.recipe; ++row) {
      table.add(cells(*row, fmt::format("{}", row->result.run.seed), fp32_bytes));
    }
    if (row - first > 1) table.add(cells(mean(first, row), "mean", fp32_bytes));
    first = row;
  }
  return table.text() +
         "bytes kept: by the tape for backward, first batch. logits off: largest difference from\n"
         "fp32 in the first test batch before training, relative to fp32's largest logit.\n";
}

}  // namespace tape8::tools
