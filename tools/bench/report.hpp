#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/figure.hpp"

namespace tape8::tools::bench {

/// Rows of a table that are printed as they are measured, under one header.
class Rows {
 public:
  /// For names of at most that length; `peer` is empty where none of the figures has one.
  Rows(std::size_t name_width, std::string peer)
      : name_width_(name_width), peer_(std::move(peer)) {}

  std::string header() const;
  /// `other_load` is the share of the cores that other programs took meanwhile.
  std::string row(const Result& result, double other_load) const;

 private:
  std::size_t name_width_ = 0;
  std::string peer_;
};

/// A list of {"name", "value", "unit", "limit", "limit_value", "share"}, with {"peer",
/// "peer_value"} where there is one; null where there is no limit.
std::string json_of(const std::vector<Result>& results);

}  // namespace tape8::tools::bench
