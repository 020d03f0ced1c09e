#include "bench/report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tape8::tools::bench {
namespace {

/// Four digits that count, whatever the magnitude.
std::string number(double value) {
  if (value >= 1000 || value == static_cast<double>(static_cast<long long>(value))) {
    return fmt::format("{:.0f}", value);
  }
  return fmt::format("{:.{}f}", value, value >= 100 ? 1 : value >= 10 ? 2 : 3);
}

/// What others take of the cores without a word; clock ticks are no finer.
constexpr double kTellLoad = 0.1;

bool is_time(const Result& result) { return result.unit == "ms" || result.unit == "us"; }

}  // namespace

std::string Rows::header() const {
  std::string text = fmt::format("{:<{}}  {:>9} {:<8} {:>9} {:<10} {:>6}", "figure", name_width_,
                                 "value", "", "limit", "", "share");
  if (!peer_.empty()) text += fmt::format("  {:>13} {:>6}", peer_, "times");
  return fmt::format("{}\n{:-<{}}\n", text, "", text.size());
}

std::string Rows::row(const Result& result, double other_load) const {
  std::string text = fmt::format("{:<{}}  {:>9} {:<8}", result.name, name_width_,
                                 number(result.value), result.unit);
  if (result.limit) {
    text += fmt::format(" {:>9} {:<10} {:>6.2f}", number(result.limit->value), result.limit->name,
                        result.limit->share);
  }
  if (result.peer) {
    const double ratio = result.value / result.peer->value;
    text += fmt::format("  {:>13} {:>6.2f}", number(result.peer->value),
                        is_time(result) ? 1 / ratio : ratio);
  }
  if (other_load >= kTellLoad) {
    text += fmt::format("  ({:.0f} % of the cores were others')", other_load * 100);
  }
  return text + '\n';
}

std::string json_of(const std::vector<Result>& results) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Result& result : results) {
    nlohmann::ordered_json one{{"name", result.name},    {"value", result.value},
                               {"unit", result.unit},    {"limit", nullptr},
                               {"limit_value", nullptr}, {"share", nullptr}};
    if (result.limit) {
      one["limit"] = result.limit->name;
      one["limit_value"] = result.limit->value;
      one["share"] = result.limit->share;
    }
    if (result.peer) {
      one["peer"] = result.peer->name;
      one["peer_value"] = result.peer->value;
    }
    all.push_back(std::move(one));
  }
  return all.dump(1);
}

}  // namespace tape8::tools::bench
