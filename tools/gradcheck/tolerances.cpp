#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gradcheck/operands.hpp"
#include "gradcheck/ops.hpp"
#include "gradcheck/report.hpp"

namespace tape8::tools::gradcheck {
namespace {

constexpr std::array kDTypes{DType::f64, DType::f32, DType::bf16, DType::f16};

std::string_view reason(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "what central differences in float64 reach";
    case DType::f32:
      return "sums of some hundred f32 products";
    case DType::bf16:
      return "half a unit in the last place, 2^-8, and f32's";
    case DType::f16:
      return "half a unit in the last place, 2^-11, and f32's";
    default:
      return "";
  }
}

std::string_view reason(std::string_view op) {
  if (op == "layernorm") return "x n/(n-2), rmsnorm n/(n-1): what of n values the norm leaves";
  if (op == "layernorm_dense") return "2 roundings, x n/(n-2) as layernorm";
  if (op == "layernorm_mlp") return "5 roundings, x n/(n-2) as layernorm";
  return "1 rounding";
}

/// Smallest and largest of the tolerances that an op's cases have in a dtype.
struct Range {
  double low = kMaxGradcheckTolerance;
  double high = 0.0;

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::string text() const {
    return low == high ? fmt::format("{:.1e}", low) : fmt::format("{:.1e}..{:.1e}", low, high);
  }
};

std::string table_of_dtypes() {
  std::string text = fmt::format("{:<24}{:<11}why\n", "result in", "tolerance");
  for (const DType dtype : kDTypes) {
    text += fmt::format("{:<24}{:<11.1e}{}\n", tape8::to_string(dtype), gradcheck_tolerance(dtype),
                        reason(dtype));
  }
  return text;
}

std::string table_of_ops() {
  std::vector<std::string> ops;
  std::map<std::pair<std::string, DType>, Range> ranges;
  for (const Subject& subject : all_subjects()) {
    if (std::find(ops.begin(), ops.end(), subject.op) == ops.end()) ops.push_back(subject.op);
    ranges[{subject.op, subject.dtype}].add(tolerance(subject.precision, subject.dtype));
  }
  const auto row = [](std::string_view op, const auto& cell, std::string_view why) {
    std::string line = fmt::format("{:<24}", op);
    for (const DType dtype : kDTypes) line += fmt::format("{:<19}", cell(dtype));
    return fmt::format("{}{}\n", line, why);
  };
  std::string text = row(
      "gradients of", [](DType dtype) { return tape8::to_string(dtype); }, "why");
  for (const std::string& op : ops) {
    text += row(
        op,
        [&](DType dtype) {
          return ranges[{op, dtype}].text();
        },
        reason(op));
  }
  return text;
}

std::string table_of_casts() {
  std::string text = fmt::format("{:<24}{:<11}why\n", "cast to", "tolerance");
  const auto add = [&](DType format, bool stochastic, std::string_view why) {
    text +=
        fmt::format("{:<24}{:<11.1e}{}\n",
                    fmt::format("{}{}", tape8::to_string(format), stochastic ? ", stochastic" : ""),
                    cast_tolerance(format, stochastic), why);
  };
  add(DType::e4m3, false, "half a unit in the last place, 2^-4, and bf16's");
  add(DType::e5m2, false, "half a unit in the last place, 2^-3, and bf16's");
  add(DType::e2m1, false, "half of the step from 4 to 6, an e4m3 block scale's 2^-4, and bf16's");
  add(DType::e2m1, true, "the whole step, for either neighbour may be taken");
  return text;
}

}  // namespace

std::string tolerances() {
  return fmt::format(
      "Error: max |value - reference| / max |reference| of a tensor, which must be finite.\n"
      "\n"
      "{}\n"
      "Sums over rows of what was rounded before: times the sum of magnitudes over the sum.\n"
      "\n"
      "{}\n"
      "Recipes: the reference computes with the same casts, so that none widens a tolerance.\n"
      "Output and gradients have the tolerance of their dtype after one rounding, but for a\n"
      "norm's x, gamma and beta. A cast itself is compared with what was cast:\n"
      "\n"
      "{}\n"
      "Instruction sets and thread counts: the same bytes.\n",
      table_of_dtypes(), table_of_ops(), table_of_casts());
}

}  // namespace tape8::tools::gradcheck
