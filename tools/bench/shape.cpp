#include "bench/shape.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include <tape8/tape8.hpp>

#include "bench/values.hpp"
#include "command.hpp"
#include "recipe_options.hpp"

namespace tape8::tools::bench {
namespace {

constexpr std::int64_t kLargest = 1 << 20;

/// Below this a difference is no reason to choose.
constexpr double kPays = 1.05;

Call dense_call(const DenseShape& shape, std::string_view recipe) {
  const DType dtype = recipe == kFp32 ? DType::f32 : DType::bf16;
  Rng rng{1};
  const Dense dense{{.in_features = shape.k,
                     .out_features = shape.n,
                     .recipe = recipe_from({}, recipe, 1),
                     .dtype = dtype,
                     .kernel_init = make_kernel},
                    rng};
  Variable x = parameter(make_values({shape.m, shape.k}, dtype));
  const Tensor dy = make_values({shape.m, shape.n}, dtype);
  return [dense, x, dy]() mutable {
    std::vector<Variable> leaves = dense.parameters();
    touch(leaves);
    leaves.push_back(x);
    zero_grads(leaves);
    Tape tape;
    tape.backward(dense(x), dy);
  };
}

std::string name_of(const DenseShape& shape, std::string_view recipe, int threads) {
  return fmt::format("dense/{}/{}x{}x{}/{}", recipe, shape.m, shape.n, shape.k,
                     threads_suffix(threads));
}

/// "delayed" of "dense/delayed/...".
std::string recipe_of(const Result& result) {
  const std::size_t begin = result.name.find('/') + 1;
  return result.name.substr(begin, result.name.find('/', begin) - begin);
}

}  // namespace

DenseShape dense_shape_from(const std::string& text) {
  std::array<std::int64_t, 3> sizes{};
  const char* at = text.data();
  const char* end = at + text.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto [last, error] = std::from_chars(at, end, sizes[i]);
    const bool ends_well = i + 1 < sizes.size() ? last != end && *last == 'x' : last == end;
    if (error != std::errc{} || !ends_well || sizes[i] < 1 || sizes[i] > kLargest) {
      throw UsageError(
          fmt::format("bench: --shape must be MxNxK, each a whole number from 1 to {}: got {}",
                      kLargest, text));
    }
    at = last + 1;
  }
  return {sizes[0], sizes[1], sizes[2]};
}

std::vector<Result> measure_dense(const DenseShape& shape, int threads, double seconds) {
  set_num_threads(threads);
  const double flops = 6.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                       static_cast<double>(shape.k);
  std::vector<Subject> subjects;
  for (const std::string_view recipe : kRecipeNames) {
    subjects.push_back({.call = dense_call(shape, recipe), .work = flops, .unit = Unit::ms});
  }
  const Probe f32 = f32_peak(threads), bf16 = bf16_dot_peak(threads);
  std::vector<Call> calls{f32.call, bf16.call};
  for (const Subject& subject : subjects) calls.push_back(subject.call);
  const std::vector<double> taken = median_seconds(calls, seconds);

  std::vector<Result> results;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const std::string_view recipe = kRecipeNames[i];
    const bool is_f32 = recipe == kFp32;
    results.push_back(make_result(name_of(shape, recipe, threads), subjects[i], taken[i + 2],
                                  is_f32 ? f32 : bf16, is_f32 ? taken[0] : taken[1]));
  }
  return results;
}

std::string dense_verdict(const std::vector<Result>& results) {
  const Result* bf16 = nullptr;
  const Result* fastest = nullptr;
  for (const Result& result : results) {
    const std::string recipe = recipe_of(result);
    if (recipe == kBf16) {
      bf16 = &result;
    } else if (recipe != kFp32 && (fastest == nullptr || result.value < fastest->value)) {
      fastest = &result;
    }
  }
  const double times = bf16->value / fastest->value;
  if (times >= kPays) {
    return fmt::format("FP8 pays here: {} takes {:.2f}x less time than bf16", recipe_of(*fastest),
                       times);
  }
  if (times > 1 / kPays) {
    return fmt::format("FP8 saves no time here: {}, the fastest recipe, takes as long as bf16",
                       recipe_of(*fastest));
  }
  return fmt::format(
      "FP8 does not pay here: {}, the fastest recipe, takes {:.2f}x the time of bf16",
      recipe_of(*fastest), 1 / times);
}

}  // namespace tape8::tools::bench
