#include <string>

#include <doctest/doctest.h>

#include "support/shell.hpp"

namespace tape8::test {
namespace {

/// A small tree that keeps the order, and one more file.
ShellResult check_with(const std::string& name, const std::string& content) {
  const TempDir dir;
  dir.write("src/core/a.cpp", "#include <tape8/core/a.hpp>\n#include \"core/b.hpp\"\n");
  dir.write("src/ops/a.cpp", "#include <vector>\n\n#include \"backend/backend.hpp\"\n");
  dir.write("src/backend/cpu/a.cpp", "#include \"backend/cpu/a.hpp\"\n#include \"core/b.hpp\"\n");
  dir.write("include/tape8/core/a.hpp", "#include <tape8/version.hpp>\n");
  dir.write("include/tape8/tape8.hpp", "#include <tape8/io/a.hpp>\n");
  dir.write("tools/a.cpp", "#include <fmt/core.h>\n\n#include <tape8/tape8.hpp>\n");
  dir.write(name, content);
  return shell("'" TAPE8_SOURCE "/tools/check_layers' '" + dir.path().string() + "'");
}

void check_fault(const std::string& name, const std::string& include, const std::string& rule) {
  CAPTURE(include);
  const ShellResult result = check_with(name, "// one\n" + include + "\n");
  CHECK(result.status != 0);
  CHECK(contains(result.out, name + ":2: " + rule));
}

TEST_CASE("check_layers: a tree in order passes") {
  const ShellResult result = check_with("src/nn/a.cpp", "#include \"ops/a.hpp\"\n");
  INFO(result.out, result.err);
  CHECK(result.status == 0);
  CHECK(contains(result.out, "0 faults"));
}

TEST_CASE("check_layers: each kind of fault is found") {
  check_fault("src/core/x.cpp", "#include <tape8/ops/a.hpp>", "core may not include ops");
  check_fault("src/backend/x.cpp", "#include \"quantize/a.hpp\"",
              "backend may not include quantize");
  check_fault("src/dist/x.cpp", "#  include \"quantize/a.hpp\"", "dist may not include quantize");
  check_fault("src/autograd/x.cpp", "#include \"ops/a.hpp\"", "autograd may not include ops");
  check_fault("include/tape8/nn/x.hpp", "#include <tape8/io/a.hpp>", "nn may not include io");
  check_fault("include/tape8/nn/x.hpp", "#include \"nn/a.hpp\"",
              "a public header may include only");
  check_fault("include/tape8/nn/x.hpp", "#include <fmt/core.h>", "a public header may not need");
  check_fault("src/nn/x.cpp", "#include <tape8/tape8.hpp>", "includes every layer");
  check_fault("src/ops/x.cpp", "#include \"backend/cpu/a.hpp\"", "only the backends know");
  check_fault("src/ops/x.cpp", "#include \"misc/a.hpp\"", "no such layer");
  CHECK(check_with("src/misc/x.cpp", "\n").status != 0);
}

}  // namespace
}  // namespace tape8::test
