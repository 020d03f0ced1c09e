#pragma once

#include <string>
#include <vector>

namespace tape8::tools {

/// Columns as wide as their widest cell; the first one to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Lines with their ends, a rule below the header.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tape8::tools
