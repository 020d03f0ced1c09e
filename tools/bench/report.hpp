#pragma once

#include <string>
#include <vector>

#include "bench/figure.hpp"

namespace tape8::tools::bench {

/// Rows of a table that are printed as they are measured, under one header.
class Rows {
 public:
  /// The names that will come.
  Rows(const std::vector<Figure>& figures, const std::string& peer);

  std::string header() const;
  std::string row(const Result& result) const;

 private:
  std::size_t name_width_ = 0;
  std::string peer_;
};

/// A list of {"name", "value", "unit", "limit", "limit_value", "share"}, with {"peer",
/// "peer_value"} where there is one; null where there is no limit.
std::string json_of(const std::vector<Result>& results);

}  // namespace tape8::tools::bench
