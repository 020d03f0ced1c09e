#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tools/program.hpp"

namespace tape8::test {
namespace {

using nlohmann::json;

/// A measurement of milliseconds: what it finds is of no interest here, what it says of it is.
json measured(const std::string& arguments) {
  return json_of("bench", "--seconds 0.001 " + arguments);
}

void check_positive(const json& value) {
  REQUIRE(value.is_number());
  CHECK(std::isfinite(value.get<double>()));
  CHECK(value.get<double>() > 0.0);
}

TEST_CASE("tape8 bench --list: names only, those that match") {
  const ShellResult all = tape8("bench --list --threads 1,2");
  CHECK(all.status == 0);
  CHECK(all.err.empty());
  const std::vector<std::string> names = lines_of(all.out);
  const std::set<std::string> unique(names.begin(), names.end());
  CHECK(unique.size() == names.size());
  for (const std::string name :
       {"gemm/f32/2048x3072x768/NN/1t", "gemm/e4m3/2048x3072x768/NN/1t",
        "gemm/nvfp4/768x3072x2048/TN/2t", "gemm/mxfp8/32x10x64/NT/1t", "cast/bf16/2048x768/1t",
        "layernorm_cast/bf16/2048x768/1t", "swiglu_cast/bf16/16384x3072/2t",
        "dgelu_dbias_cast/bf16/mxfp8/both/2048x768/1t",
        "layernorm_mlp/gelu/delayed/2048x768x3072/2t", "layernorm_mlp/swiglu/fp32/128x512x2048/1t",
        "training_step/current/64x64x256/1t", "fresh_pages/delayed/64x64x256/2t",
        "system_allocations/delayed/64x64x256/2t", "layernorm_dense_forward/fp32/32x10x64/1t",
        "tape_node/f32/1/1t", "program/info",
        "saved_for_backward/gelu/bf16/delayed/remake_casts/2048x768x3072"}) {
    CHECK_MESSAGE(unique.count(name) == 1, name);
  }
  const std::vector<std::string> some =
      lines_of(tape8("bench --list --threads 1 --filter '^gemm/e4m3/.*/TN/'").out);
  CHECK(some.size() == 4);
  for (const std::string& name : some) {
    CAPTURE(name);
    CHECK(name.starts_with("gemm/e4m3/"));
    CHECK(name.ends_with("/TN/1t"));
  }
}

TEST_CASE("tape8 bench --device: matmuls, fused kernels and blocks of a GPU, where there is one") {
  const std::vector<std::string> names = lines_of(tape8("bench --list --device cuda:1").out);
  for (const std::string name :
       {"gemm/e4m3/2048x3072x768/TN/cuda:1", "layernorm_cast/bf16/16384x3072/cuda:1",
        "layernorm_mlp/gelu/delayed/2048x768x3072/cuda:1"}) {
    CHECK_MESSAGE(std::count(names.begin(), names.end(), name) == 1, name);
  }
  for (const std::string& name : names) CHECK_MESSAGE(name.ends_with("/cuda:1"), name);
  CHECK(tape8("bench --list --device gpu").status == 2);
  CHECK(tape8("bench --device cuda --shape 2x2x2").status == 2);
}

TEST_CASE("tape8 bench --json: every figure with its limit, measured in the same run") {
  const json results = measured("--threads 1,2 --filter '^gemm/.*/32x10x64/NN/'");
  CHECK(results.size() == 12);
  for (const json& one : results) {
    CAPTURE(one.dump());
    const bool is_f32 = one.at("name").get<std::string>().starts_with("gemm/f32/");
    CHECK(one.at("unit") == "GFLOP/s");
    for (const char* key : {"value", "limit_value", "share"}) check_positive(one.at(key));
    CHECK(one.at("share").get<double>() ==
          doctest::Approx(one.at("value").get<double>() / one.at("limit_value").get<double>()));
    if (is_f32) CHECK(one.at("limit") == "f32 fma");
    CHECK(one.contains("peer") == one.contains("peer_value"));
    if (one.contains("peer_value")) check_positive(one.at("peer_value"));
  }
}

TEST_CASE("tape8 bench --json: a time's share is that of its limit in it") {
  const json results = measured("--threads 1 --filter '^(training_step|layernorm_dense).*x64'");
  CHECK(results.size() == 14);
  for (const json& one : results) {
    CAPTURE(one.dump());
    CHECK((one.at("unit") == "ms" || one.at("unit") == "us"));
    check_positive(one.at("value"));
    CHECK(one.at("share").get<double>() ==
          doctest::Approx(one.at("limit_value").get<double>() / one.at("value").get<double>()));
  }
}

TEST_CASE("tape8 bench: bytes moved against a copy; what has no limit has none") {
  const json cast = measured("--threads 1 --filter '^(cast|dgelu_dbias_cast)/bf16/.*2048x768/'");
  CHECK(cast.size() == 11);
  for (const json& one : cast) {
    CHECK(one.at("unit") == "GB/s");
    CHECK(one.at("limit") == "copy");
    check_positive(one.at("value"));
  }
  const json node = measured("--filter '^tape_node/'");
  REQUIRE(node.size() == 1);
  check_positive(node[0].at("value"));
  for (const char* key : {"limit", "limit_value", "share"}) CHECK(node[0].at(key).is_null());
}

TEST_CASE("tape8 bench: memory kept for backward is counted, not estimated") {
  const json results = measured("--filter '^saved_for_backward/gelu/(bf16|f32)/delayed/'");
  REQUIRE(results.size() == 4);
  // Bytes a row of x, norm's output, activation's input and its output; mu and rsigma beside them.
  const double hidden = 768, intermediate = 3072, rows = 2048, mib = 1 << 20;
  const auto kept = [&](double x, double norm, double pre, double act) {
    return rows * (x * hidden + norm * hidden + pre * intermediate + act * intermediate + 8) / mib;
  };
  const double expected[] = {kept(2, 1, 2, 1), kept(2, 0, 2, 0), kept(4, 1, 4, 1),
                             kept(4, 0, 4, 0)};
  const double unquantized[] = {kept(2, 2, 2, 2), kept(2, 2, 2, 2), kept(4, 4, 4, 4),
                                kept(4, 4, 4, 4)};
  for (std::size_t i = 0; i < results.size(); ++i) {
    CAPTURE(results[i].dump());
    CHECK(results[i].at("unit") == "MiB");
    CHECK(results[i].at("value").get<double>() == doctest::Approx(expected[i]).epsilon(1e-4));
    CHECK(results[i].at("limit_value").get<double>() ==
          doctest::Approx(unquantized[i]).epsilon(1e-4));
  }
}

TEST_CASE("tape8 bench: training takes no memory from the system after its first step") {
  const json results = measured("--filter '^system_allocations/.*/64x64x256/'");
  CHECK(results.size() == 7);
  for (const json& one : results) {
    CAPTURE(one.dump());
    CHECK(one.at("value") == 0.0);
  }
}

TEST_CASE("tape8 bench: a table, and the file beside it") {
  const TempDir dir;
  const std::string file = (dir.path() / "bench.json").string();
  const ShellResult result =
      tape8("bench --threads 1 --seconds 0.001 --filter '^gemm/bf16/32x10x64/NN/' --json " + file);
  INFO(result.out);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  for (const std::string part : {"tape8 ", "oneDNN", "figure", "value", "limit", "share",
                                 "gemm/bf16/32x10x64/NN/1t", "GFLOP/s"}) {
    CHECK_MESSAGE(contains(result.out, part), part);
  }
  CHECK(json::parse(read_text(file)).size() == 1);
}

TEST_CASE("tape8 bench --shape: each recipe, and whether FP8 pays") {
  const ShellResult result = tape8("bench --shape 48x32x64 --threads 1,2 --seconds 0.001");
  INFO(result.out);
  CHECK(result.status == 0);
  for (const std::string recipe :
       {"fp32", "bf16", "delayed", "current", "mxfp8", "block", "nvfp4"}) {
    CHECK_MESSAGE(contains(result.out, "dense/" + recipe + "/48x32x64/1t"), recipe);
    CHECK_MESSAGE(contains(result.out, "dense/" + recipe + "/48x32x64/2t"), recipe);
  }
  const std::vector<std::string> lines = lines_of(result.out);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.starts_with("FP8 ") && contains(line, " here: ");
        }) == 2);

  const json results = measured("--shape 48x32x64 --threads 1");
  REQUIRE(results.size() == 7);
  CHECK(results[0].at("name") == "dense/fp32/48x32x64/1t");
  CHECK(results[2].at("name") == "dense/delayed/48x32x64/1t");
  for (const json& one : results) check_positive(one.at("share"));
}

TEST_CASE("tape8 bench: wrong usage is status 2 and one line") {
  check_refused("bench --filter '('", 2, "--filter must be a regular expression: got (");
  check_refused("bench --filter nosuchfigure", 2, "--filter must match a figure, such as gemm/");
  check_refused("bench --threads 0", 2, "--threads: must be a whole number from 1 to 4096");
  check_refused("bench --threads 1,x", 2, "--threads: must be a whole number from 1 to 4096");
  check_refused("bench --seconds 0", 2, "--seconds: must be a finite number above 0");
  for (const std::string shape :
       {"12x3", "12x3x4x5", "12x3x", "0x3x4", "ax3x4", "12x3x4 ", "-1x2x3", "1x2x2000000"}) {
    check_refused("bench --shape '" + shape + "'", 2, "--shape must be MxNxK, each a whole number");
  }
  check_refused("bench --shape 1x2x3 --filter x", 2, "--filter excludes --shape");
  check_refused("bench --fitler x", 2, "unknown argument --fitler: the options are --help,");
  check_refused("bench --filter tape_node --json /dev/null/x", 3, "/dev/null/x: cannot be written");
}

TEST_CASE("tape8 bench --help: every option with its default") {
  const std::string help = tape8("bench --help").out;
  for (const std::string part :
       {"--list", "--filter REGEX", "(default all)", "--shape MxNxK", "--threads N,...",
        "(default 1", "--seconds S", "(default 0.1)", "--json FILE"}) {
    CHECK_MESSAGE(contains(help, part), part);
  }
}

}  // namespace
}  // namespace tape8::test
