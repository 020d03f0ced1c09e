#include "gradcheck/norms.hpp"

#include <array>

#include <fmt/format.h>

namespace tape8::tools::gradcheck {

std::string NormCase::name() const {
  const bool takes_beta = type == NormType::layernorm;
  return fmt::format("{}{}{}", to_string(type), zero_centered_gamma ? "_zero_centered" : "",
                     takes_beta && !beta ? "_no_beta" : "");
}

NormFormula NormCase::formula(const Tensor& gamma, const Tensor& beta_values) const {
  return {.type = type,
          .zero_centered_gamma = zero_centered_gamma,
          .epsilon = double{kNormEpsilon},
          .gamma = gamma.to_vector<double>(),
          .beta = beta ? beta_values.to_vector<double>() : std::vector<double>{}};
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

}  // namespace tape8::tools::gradcheck
