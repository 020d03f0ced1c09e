#include <string>

#include <doctest/doctest.h>

#include <tape8/backend/info.hpp>

#include "tools/program.hpp"

namespace tape8::test {
namespace {

TEST_CASE("tape8 info: what this build and machine have") {
  const ShellResult result = tape8("info");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  for (const std::string part : {"compiler", "threads", "cuda", "off: not built (experimental; NVIDIA GPUs)", "avx512", "avx2",
                                 "portable", "fmt", "spdlog", "zlib"}) {
    CHECK_MESSAGE(contains(result.out, part), part);
  }
  CHECK(contains(shell("OMP_NUM_THREADS=3 '" TAPE8_PROGRAM "' info").out, "threads      3"));
}

TEST_CASE("tape8 info: a set that is forced is in use, and says why the faster ones are not") {
  const ShellResult result = shell("TAPE8_ISA=portable '" TAPE8_PROGRAM "' info");
  CHECK(result.status == 0);
  CHECK(contains(result.out, "portable   in use"));
  for (const BackendInfo& isa : cpu_isas()) {
    if (isa.name == "portable" || !isa.available) continue;
    CHECK(contains(result.out, isa.name + std::string(11 - isa.name.size(), ' ') +
                                   "available: TAPE8_ISA=portable is in the environment"));
  }
  const ShellResult unknown = shell("TAPE8_ISA=sse2 '" TAPE8_PROGRAM "' info");
  CHECK(unknown.status == 2);
  CHECK(unknown.err.starts_with("tape8: TAPE8_ISA: must be one of "));
}

TEST_CASE("backends: the CPU is there and what is not there says why") {
  bool has_cpu = false;
  for (const std::vector<BackendInfo>& infos : {backends(), cpu_isas()}) {
    for (const BackendInfo& info : infos) {
      CAPTURE(info.name);
      CHECK(!info.description.empty());
      CHECK((info.available || !info.why_not.empty()));
      has_cpu = has_cpu || (info.name == "cpu" && info.available);
    }
  }
  CHECK(has_cpu);
}

}  // namespace
}  // namespace tape8::test
