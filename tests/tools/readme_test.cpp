#include <string>

#include <doctest/doctest.h>

#include "support/temp_dir.hpp"

namespace tape8::test {
namespace {

TEST_CASE("README.md shows the quickstart program as it is built") {
  const std::string readme = read_text(TAPE8_SOURCE "/README.md");
  const std::string fence = "```cpp\n";
  const std::size_t begin = readme.find(fence);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = readme.find("```", begin + fence.size());
  const std::string shown = readme.substr(begin + fence.size(), end - begin - fence.size());
  CHECK(shown == read_text(TAPE8_SOURCE "/examples/quickstart.cpp"));
}

}  // namespace
}  // namespace tape8::test
