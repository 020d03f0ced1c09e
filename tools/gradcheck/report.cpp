#include "gradcheck/report.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "table.hpp"

namespace tape8::tools::gradcheck {
namespace {

constexpr std::size_t kBarWidth = 32;
constexpr std::chrono::milliseconds kRedrawEvery{50};

bool compares_machines(const CaseResult& result) {
  return result.what.kind == Kind::isa || result.what.kind == Kind::backend;
}

/// True when a is worse than b.
bool is_worse(const CaseResult& a, const CaseResult& b) {
  if (a.passed() != b.passed()) return b.passed();
  return a.ratio() > b.ratio();
}

/// The cases of one op, dtype and recipe.
struct Group {
  std::size_t against_float64 = 0, same = 0, between_machines = 0, failed = 0;
  double worst_ratio = 0.0;

  void add(const CaseResult& result) {
    failed += result.passed() ? 0 : 1;
    if (compares_machines(result)) {
      ++between_machines;
      same += result.passed() ? 1 : 0;
    } else {
      ++against_float64;
      worst_ratio = std::max(worst_ratio, result.ratio());
    }
  }
};

nlohmann::ordered_json json_of(const CaseResult& result) {
  const Subject& subject = *result.what.subject;
  const Comparison& worst = result.worst;
  return {{"name", result.what.name()},
          {"kind", to_string(result.what.kind)},
          {"op", subject.op},
          {"dtype", tape8::to_string(subject.dtype)},
          {"recipe", subject.recipe->name},
          {"passed", result.passed()},
          {"verdict", tape8::to_string(worst.verdict)},
          {"tensor", worst.name},
          {"error", worst.error},  // null where it is not finite
          {"tolerance", worst.tolerance},
          {"element", worst.element},
          {"value", worst.value},
          {"reference", worst.reference},
          {"message", worst.message}};
}

/// A name as a regular expression that matches it alone.
std::string escaped(const std::string& name) {
  std::string result;
  for (const char c : name) {
    if (c == '.' || c == '+') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

Bar::Bar(std::size_t cases, bool shown)
    : cases_(cases), shown_(shown && isatty(STDOUT_FILENO) == 1) {}

Bar::~Bar() {
  if (!shown_) return;
  fmt::print("\r\033[K");
  std::fflush(stdout);
}

void Bar::done(std::size_t cases, std::size_t failed) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now - drawn_ < kRedrawEvery) return;
  drawn_ = now;
  const std::size_t filled = kBarWidth * cases / cases_;
  fmt::print("\r\033[Kgradcheck [{:=<{}}{: <{}}] {}/{}, {} failed", "", filled, "",
             kBarWidth - filled, cases, cases_, failed);
  std::fflush(stdout);
}

std::string json_of(const std::vector<CaseResult>& results) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const CaseResult& result : results) all.push_back(json_of(result));
  const nlohmann::ordered_json document{{"cases", results.size()},
                                        {"failed", count_failed(results)},
                                        {"worst", json_of(worst_of(results))},
                                        {"results", std::move(all)}};
  return document.dump(1);
}

std::size_t count_failed(const std::vector<CaseResult>& results) {
  return static_cast<std::size_t>(std::count_if(
      results.begin(), results.end(), [](const CaseResult& result) { return !result.passed(); }));
}

const CaseResult& worst_of(const std::vector<CaseResult>& results) {
  return *std::min_element(results.begin(), results.end(), is_worse);
}

std::string summary(const std::vector<CaseResult>& results) {
  using Key = std::tuple<std::string, DType, std::string>;
  std::vector<std::pair<Key, Group>> groups;  // in the order of the cases
  std::map<Key, std::size_t> index;
  for (const CaseResult& result : results) {
    const Subject& subject = *result.what.subject;
    const Key key{subject.op, subject.dtype, subject.recipe->name};
    const auto [found, is_new] = index.emplace(key, groups.size());
    if (is_new) groups.push_back({key, {}});
    groups[found->second].second.add(result);
  }
  Table table({"op", "dtype", "recipe", "cases", "worst", "same bytes", "verdict"});
  for (const auto& [key, group] : groups) {
    const auto& [op, dtype, recipe] = key;
    table.add({op, std::string(tape8::to_string(dtype)), recipe,
               fmt::format("{}", group.against_float64 + group.between_machines),
               group.against_float64 > 0 ? fmt::format("{:.2f}", group.worst_ratio) : "-",
               fmt::format("{}/{}", group.same, group.between_machines),
               group.failed == 0 ? "passed" : fmt::format("{} FAILED", group.failed)});
  }
  return table.text();
}

std::string failures(const std::vector<CaseResult>& results, std::size_t most) {
  std::string text;
  std::size_t shown = 0;
  for (const CaseResult& result : results) {
    if (result.passed()) continue;
    if (shown++ == most) return text + fmt::format("and {} more\n", count_failed(results) - most);
    text += fmt::format("{} {}: {}\n", tape8::to_string(result.worst.verdict), result.what.name(),
                        result.worst.message);
  }
  return text;
}

std::string command_for(const CaseResult& result, const RunSettings& settings) {
  const bool on_cpu = result.what.device.type == DeviceType::cpu;
  return fmt::format("tape8 gradcheck{} --filter '^{}$' --seed {}", on_cpu ? "" : " --backend cuda",
                     escaped(result.what.name()), settings.seed);
}

}  // namespace tape8::tools::gradcheck
