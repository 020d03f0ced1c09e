#include <fmt/ranges.h>

#include <tape8/core/activation_type.hpp>

#include "core/fail.hpp"

namespace tape8 {
namespace {

struct NamedType {
  std::string_view name;
  ActivationType type;
};

constexpr std::array<NamedType, 16> kNamedTypes{{{"gelu", gelu},
                                                 {"silu", silu},
                                                 {"sigmoid", sigmoid},
                                                 {"relu", relu},
                                                 {"squared_relu", squared_relu},
                                                 {"quick_gelu", quick_gelu},
                                                 {"linear", linear},
                                                 {"geglu", geglu},
                                                 {"glu", glu},
                                                 {"swiglu", swiglu},
                                                 {"reglu", reglu},
                                                 {"qgeglu", qgeglu},
                                                 {"sreglu", sreglu},
                                                 {"clamped_silu", Act::clamped_silu},
                                                 {"clamped_linear", Act::clamped_linear},
                                                 {"clamped_swiglu", clamped_swiglu}}};

constexpr auto kNames = [] {
  std::array<std::string_view, kNamedTypes.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kNamedTypes[i].name;
  return names;
}();

}  // namespace

void ActivationType::refuse_count(std::size_t count) {
  fail<OptionError>("activation_type: must have 1 to {} parts: got {}", kMaxActivationParts, count);
}

std::string_view to_string(Act act) {
  switch (act) {
    case Act::linear:
      return "linear";
    case Act::gelu:
      return "gelu";
    case Act::silu:
      return "silu";
    case Act::sigmoid:
      return "sigmoid";
    case Act::relu:
      return "relu";
    case Act::squared_relu:
      return "squared_relu";
    case Act::quick_gelu:
      return "quick_gelu";
    case Act::clamped_silu:
      return "clamped_silu";
    case Act::clamped_linear:
      return "clamped_linear";
  }
  return "";
}

std::string_view to_string(const ActivationPart& part) {
  return part.custom() != nullptr ? "custom" : to_string(part.act());
}

std::string to_string(const ActivationType& type) {
  for (const NamedType& named : kNamedTypes) {
    if (named.type == type) return std::string(named.name);
  }
  std::string text;
  for (const ActivationPart& part : type.parts()) {
    if (!text.empty()) text += '*';
    text += to_string(part);
  }
  return text;
}

ActivationType activation_type_from(std::string_view name) {
  for (const NamedType& named : kNamedTypes) {
    if (named.name == name) return named.type;
  }
  fail<OptionError>("activation: must be one of {}: got {}", fmt::join(kNames, ", "), name);
}

std::span<const std::string_view> activation_names() { return kNames; }

}  // namespace tape8
