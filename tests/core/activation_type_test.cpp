#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/core/activation_type.hpp>

#include "support/expect.hpp"

namespace tape8 {
namespace {

struct Row {
  std::string_view name;
  ActivationType type;
  std::vector<Act> parts;
};

TEST_CASE("activation_type: names and parts, the activated one first") {
  const std::array<Row, 14> rows{{
      {"linear", linear, {Act::linear}},
      {"gelu", gelu, {Act::gelu}},
      {"silu", silu, {Act::silu}},
      {"sigmoid", sigmoid, {Act::sigmoid}},
      {"relu", relu, {Act::relu}},
      {"squared_relu", squared_relu, {Act::squared_relu}},
      {"quick_gelu", quick_gelu, {Act::quick_gelu}},
      {"geglu", geglu, {Act::gelu, Act::linear}},
      {"glu", glu, {Act::sigmoid, Act::linear}},
      {"swiglu", swiglu, {Act::silu, Act::linear}},
      {"reglu", reglu, {Act::relu, Act::linear}},
      {"qgeglu", qgeglu, {Act::quick_gelu, Act::linear}},
      {"sreglu", sreglu, {Act::squared_relu, Act::linear}},
      {"clamped_swiglu", clamped_swiglu, {Act::clamped_silu, Act::clamped_linear}},
  }};
  const auto names = activation_names();
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(std::equal(row.type.parts().begin(), row.type.parts().end(), row.parts.begin(),
                     row.parts.end()));
    CHECK(row.type.count() == static_cast<int>(row.parts.size()));
    CHECK(to_string(row.type) == row.name);
    CHECK(activation_type_from(row.name) == row.type);
    CHECK(std::find(names.begin(), names.end(), row.name) != names.end());
  }
  for (const std::string_view name : names) CHECK(to_string(activation_type_from(name)) == name);
}

TEST_CASE("activation_type: unnamed products, refusals") {
  CHECK(to_string(ActivationType{Act::relu, Act::gelu, Act::linear}) == "relu*gelu*linear");
  CHECK(ActivationType{Act::relu, Act::gelu} != ActivationType{Act::gelu, Act::relu});
  test::check_throws<OptionError>(
      "activation_type", [] { ActivationType{std::initializer_list<ActivationPart>{}}; }, {"0"});
  test::check_throws<OptionError>(
      "activation_type",
      [] {
        ActivationType{Act::relu, Act::relu, Act::relu, Act::relu, Act::relu};
      },
      {"5"});
  test::check_throws<OptionError>("activation", [] { activation_type_from("swish"); },
                                  {"swish", "swiglu"});
}

TEST_CASE("activation_params: the defaults") {
  const ActivationParams params;
  CHECK(params.clamped_swiglu.limit == 7.0F);
  CHECK(params.clamped_swiglu.alpha == 1.702F);
  CHECK(params.clamped_swiglu.glu_linear_offset == 1.0F);
}

}  // namespace
}  // namespace tape8
