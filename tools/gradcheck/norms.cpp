#include "gradcheck/norms.hpp"

#include <array>

#include <fmt/format.h>

namespace tape8::tools::gradcheck {
namespace {

constexpr float kEpsilon = 1e-6F;

}  // namespace

std::string NormCase::name() const {
  const bool takes_beta = type == NormType::layernorm;
  return fmt::format("{}{}{}", to_string(type), zero_centered_gamma ? "_zero_centered" : "",
                     takes_beta && !beta ? "_no_beta" : "");
}

LayerNormOptions NormCase::options() const {
  return {.norm_type = type, .zero_centered_gamma = zero_centered_gamma, .epsilon = kEpsilon};
}

NormFormula NormCase::formula(const Tensor& gamma, const Tensor& beta_values) const {
  return {.type = type,
          .zero_centered_gamma = zero_centered_gamma,
          .epsilon = double{kEpsilon},
          .gamma = gamma.to_vector<double>(),
          .beta = beta ? beta_values.to_vector<double>() : std::vector<double>{}};
}

Tensor NormCase::values(const Tensor& x, const Tensor& gamma, const Tensor& beta_values,
                        DType dtype) const {
  const Variable y =
      layernorm(x.to(dtype), gamma, beta ? Variable{beta_values} : Variable{}, options());
  return y.tensor().reshape({-1, x.shape()[-1]});
}

double NormCase::cancellation(std::int64_t hidden) const {
  const double lost = type == NormType::layernorm ? 2.0 : 1.0;
  const auto n = static_cast<double>(hidden);
  return n / (n - lost);
}

std::span<const NormCase> norm_cases() {
  static const std::array kCases{
      NormCase{NormType::layernorm, false, true}, NormCase{NormType::layernorm, false, false},
      NormCase{NormType::layernorm, true, true},  NormCase{NormType::layernorm, true, false},
      NormCase{NormType::rmsnorm, false, false},  NormCase{NormType::rmsnorm, true, false}};
  return kCases;
}

std::span<const NormCase> norm_types() {
  static const std::array kCases{NormCase{NormType::layernorm, false, true},
                                 NormCase{NormType::rmsnorm, false, false}};
  return kCases;
}

Tensor random_gamma(std::int64_t hidden, DType dtype, Random& random) {
  return random.values({hidden}, dtype);
}

Tensor random_beta(const NormCase& norm, std::int64_t hidden, DType dtype, Random& random) {
  return norm.beta ? random.values({hidden}, dtype) : Tensor{};
}

Expected expected_sums(const ColumnSums& sums, DType dtype) {
  return {.values = sums.values, .tolerance = tolerance({.factor = sums.cancellation}, dtype)};
}

}  // namespace tape8::tools::gradcheck
