#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tape8/backend/info.hpp>

#include "tools/program.hpp"

namespace tape8::test {
namespace {

using nlohmann::json;

TEST_CASE("tape8 gradcheck --list: names only, those that match") {
  const ShellResult all = tape8("gradcheck --list");
  CHECK(all.status == 0);
  CHECK(all.err.empty());
  const std::vector<std::string> names = lines_of(all.out);
  CHECK(names.size() >= 3000);
  CHECK(std::find(names.begin(), names.end(), "dense/bf16/delayed/bias/33x17x9") != names.end());
  CHECK(std::find(names.begin(), names.end(), "dense/bf16/delayed/bias/33x17x9/isa") !=
        names.end());
  const std::vector<std::string> some =
      lines_of(tape8("gradcheck --list --filter '^dense/bf16/(delayed|current)/.*x9$'").out);
  CHECK(!some.empty());
  CHECK(some.size() < names.size());
  for (const std::string& name : some) {
    CAPTURE(name);
    CHECK((name.starts_with("dense/bf16/delayed/") || name.starts_with("dense/bf16/current/")));
    CHECK(name.ends_with("x9"));
  }
}

TEST_CASE("tape8 gradcheck: a table, the worst case, and the command that repeats it") {
  const ShellResult result = tape8("gradcheck --filter '^dense/(f32|bf16)/delayed/' --seed 3");
  INFO(result.out);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  for (const std::string part : {"op ", "dtype", "recipe", "cases", "worst", "same bytes",
                                 "verdict", "passed", "0 failed", "seed 3"}) {
    CHECK_MESSAGE(contains(result.out, part), part);
  }
  CHECK(!contains(result.out, "\r"));
  const std::vector<std::string> lines = lines_of(result.out);
  REQUIRE(lines.size() > 2);
  const std::string& again = lines.back();
  const std::string start = "again  tape8 ";
  REQUIRE(again.starts_with(start));
  CHECK(again.ends_with(" --seed 3"));
  const ShellResult repeated = tape8(again.substr(start.size()));
  CHECK(repeated.status == 0);
  CHECK(contains(repeated.out, "1 cases, 0 failed"));
  // The same worst case, with the same figures.
  CHECK(lines_of(repeated.out)[lines_of(repeated.out).size() - 2] == lines[lines.size() - 2]);
}

TEST_CASE("tape8 gradcheck --json: every result, and what decided it") {
  const json document =
      json_of("gradcheck", "--filter '^activation/bf16/(high_precision|current)/swiglu/'");
  CHECK(document.at("failed") == 0);
  const json& results = document.at("results");
  CHECK(document.at("cases") == results.size());
  std::set<std::string> kinds;
  double worst = 0.0;
  for (const json& one : results) {
    CAPTURE(one.dump());
    CHECK(one.at("op") == "activation");
    CHECK(one.at("dtype") == "bf16");
    CHECK(one.at("name").get<std::string>().starts_with("activation/bf16/"));
    CHECK(one.at("passed") == true);
    CHECK(one.at("verdict") == "passed");
    for (const char* key : {"recipe", "tensor", "message"}) CHECK(one.at(key).is_string());
    for (const char* key : {"error", "tolerance", "element", "value", "reference"}) {
      CHECK(one.at(key).is_number());
    }
    kinds.insert(one.at("kind"));
    const double tolerance = one.at("tolerance");
    if (tolerance > 0.0) worst = std::max(worst, one.at("error").get<double>() / tolerance);
  }
  CHECK(kinds == std::set<std::string>{"gradient", "isa", "quantized"});
  const json& named = document.at("worst");
  CHECK(named.at("error").get<double>() / named.at("tolerance").get<double>() == worst);
  CHECK(worst > 0.0);

  const TempDir dir;
  const std::string file = (dir.path() / "gradcheck.json").string();
  const ShellResult result = tape8("gradcheck --filter '^add/f32/' --json " + file);
  CHECK(result.status == 0);
  CHECK(contains(result.out, "verdict"));
  CHECK(json::parse(read_text(file)).at("cases").get<int>() > 0);
}

TEST_CASE("tape8 gradcheck: the seed decides the values, machine and threads do not") {
  const std::string filter = "--filter '^layernorm_dense/bf16/delayed/[^/]*/33x17x9$' ";
  const auto results = [&](const std::string& options) {
    return json_of("gradcheck", filter + options).at("results");
  };
  const json first = results("");
  CHECK(results("") == first);
  CHECK(results("--seed 1") == first);
  CHECK(results("--seed 2") != first);
  CHECK(results("--threads 1") == first);
  CHECK(results("--backend cpu") == first);
  for (const BackendInfo& isa : cpu_isas()) {
    if (isa.available) CHECK(results("--isa " + isa.name) == first);
  }
}

TEST_CASE("tape8 gradcheck --isa: the set that ops run on") {
  for (const BackendInfo& isa : cpu_isas()) {
    if (!isa.available) continue;
    CAPTURE(isa.name);
    const ShellResult result =
        shell("TAPE8_LOG=debug '" TAPE8_PROGRAM "' gradcheck --isa " + isa.name +
              " --filter '^(add|dense)/f32/high_precision/.*[^a]$'");
    CHECK(result.status == 0);
    for (const BackendInfo& other : cpu_isas()) {
      CHECK(contains(result.err, "[" + other.name + "]") == (other.name == isa.name));
    }
  }
}

TEST_CASE("tape8 gradcheck --tolerances: each with its reason") {
  const ShellResult result = tape8("gradcheck --tolerances");
  CHECK(result.status == 0);
  for (const std::string part :
       {"f64", "1.0e-07", "f32", "1.0e-05", "bf16", "3.9e-03", "f16", "5.0e-04", "layernorm_dense",
        "n/(n-2)", "e4m3", "e5m2", "e2m1, stochastic", "the same bytes"}) {
    CHECK_MESSAGE(contains(result.out, part), part);
  }
}

TEST_CASE("tape8 gradcheck: wrong usage is status 2 and one line") {
  check_refused("gradcheck --filter '('", 2, "--filter must be a regular expression: got (");
  check_refused("gradcheck --filter nosuchop", 2, "--filter must match a case, such as ");
  check_refused("gradcheck --list --filter nosuchop", 2, "got nosuchop");
  check_refused("gradcheck --backend tpu", 2, "--backend must be one of cpu");
  check_refused("gradcheck --isa sse2 --filter '^add/f32/'", 2, "set_cpu_isa: must be one of ");
  check_refused("gradcheck --threads 0", 2, "--threads: must be a whole number from 1 to 4096");
  check_refused("gradcheck --seed -1", 2, "--seed: must be a whole number from 0 to");
  check_refused("gradcheck --fitler x", 2, "unknown argument --fitler: the options are --help,");
  check_refused("gradcheck --filter '^add/f32/' --json /dev/null/x", 3,
                "/dev/null/x: cannot be written");
}

TEST_CASE("tape8 gradcheck --help: every option with its default") {
  const std::string help = tape8("gradcheck --help").out;
  for (const std::string part : {"--list", "--tolerances", "--filter REGEX", "(default all)",
                                 "--backend NAME", "(default cpu)", "--isa NAME", "--threads N",
                                 "(default 2)", "--seed N", "(default 1)", "--json FILE"}) {
    CHECK_MESSAGE(contains(help, part), part);
  }
}

}  // namespace
}  // namespace tape8::test
