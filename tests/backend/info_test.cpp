#include <string>

#include <doctest/doctest.h>

#include <tape8/backend/info.hpp>

#include "backend/backend.hpp"
#include "support/expect.hpp"

namespace tape8::test {
namespace {

TEST_CASE("set_cpu_isa: each set that the machine has, until another is chosen") {
  const std::string before = cpu_isa();
  for (const BackendInfo& chosen : cpu_isas()) {
    CAPTURE(chosen.name);
    if (!chosen.available) {
      check_throws<OptionError>("set_cpu_isa", [&] { set_cpu_isa(chosen.name); }, {chosen.name});
      continue;
    }
    set_cpu_isa(chosen.name);
    CHECK(cpu_isa() == chosen.name);
    bool faster = true;
    for (const BackendInfo& isa : cpu_isas()) {
      if (isa.name == chosen.name) faster = false;
      if (isa.available) CHECK(isa.why_not.empty() == !faster);
    }
    CHECK(backends()[0].description.find(chosen.name) != std::string::npos);
  }
  set_cpu_isa(before);
  CHECK(cpu_isa() == before);
}

TEST_CASE("set_cpu_isa: a set that there is not changes nothing") {
  const std::string before = cpu_isa();
  for (const std::string name : {"", "sse2", "AVX2"}) {
    check_throws<OptionError>("set_cpu_isa", [&] { set_cpu_isa(name); }, {"portable", name});
    CHECK(cpu_isa() == before);
  }
}

TEST_CASE("set_cpu_isa: another backend runs the ops, and the one before lives on") {
  const std::string before = cpu_isa();
  set_cpu_isa("portable");
  Backend& portable = backend({});
  for (const BackendInfo& isa : cpu_isas()) {
    if (!isa.available) continue;
    set_cpu_isa(isa.name);
    CHECK((&backend({}) == &portable) == (isa.name == "portable"));
    CHECK(portable.name() == "cpu");
  }
  set_cpu_isa(before);
}

}  // namespace
}  // namespace tape8::test
