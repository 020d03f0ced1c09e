#pragma once

#include <concepts>
#include <vector>

#include <tape8/autograd/variable.hpp>

namespace tape8 {

/// What has parameters: tape8's modules, and any class with such a member.
template <class M>
concept Module = requires(const M& module) {
  { module.parameters() } -> std::same_as<std::vector<Variable>>;
};

/// The parameters of all modules, in order.
template <Module... Modules>
std::vector<Variable> parameters(const Modules&... modules) {
  std::vector<Variable> all;
  const auto append = [&all](const std::vector<Variable>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  (append(modules.parameters()), ...);
  return all;
}

}  // namespace tape8
