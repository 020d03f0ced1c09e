#include "table.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tape8::tools {

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                    : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    out += '\n';
    if (&row != &rows_.front()) continue;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      out += fmt::format("{}{:-<{}}", i == 0 ? "" : "  ", "", widths[i]);
    }
    out += '\n';
  }
  return out;
}

}  // namespace tape8::tools
