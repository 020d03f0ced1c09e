#include "backend/cpu/activation_parts.hpp"

#include <cstddef>

namespace tape8::cpu {
namespace {

void call_value(const CustomActivation& custom, const float* x, float* y, int count) {
  const auto size = static_cast<std::size_t>(count);
  custom.value({x, size}, {y, size});
}

void call_derivative(const CustomActivation& custom, const float* x, float* y, int count) {
  const auto size = static_cast<std::size_t>(count);
  custom.derivative({x, size}, {y, size});
}

}  // namespace

ActivationParts parts_of(const ActivationType& type) {
  ActivationParts parts{
      .count = type.count(), .custom_value = call_value, .custom_derivative = call_derivative};
  for (std::size_t p = 0; p < type.parts().size(); ++p) {
    parts.acts[p] = type.parts()[p].act();
    parts.customs[p] = type.parts()[p].custom();
  }
  return parts;
}

}  // namespace tape8::cpu
