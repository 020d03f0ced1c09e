#include <string>

#include <doctest/doctest.h>

#include "tools/program.hpp"

namespace tape8::test {
namespace {

TEST_CASE("tape8: help and version are asked for, so they are status 0 on standard output") {
  for (const std::string arguments :
       {"--help", "-h", "train --help", "gradcheck --help", "info --help", "--version"}) {
    CAPTURE(arguments);
    const ShellResult result = tape8(arguments);
    CHECK(result.status == 0);
    CHECK(result.err.empty());
    CHECK(contains(result.out, arguments == "--version" ? "tape8 0." : "--help"));
  }
}

TEST_CASE("tape8 train --help: every option with its default") {
  const std::string help = tape8("train --help").out;
  for (const std::string part : {"--data DIR",
                                 "(default examples/data/digits)",
                                 "--recipe NAME",
                                 "(default fp32)",
                                 "--compare NAME,...",
                                 "--seed N",
                                 "--seeds N,...",
                                 "--threads N",
                                 "--log FILE",
                                 "--check-finite",
                                 "--hidden N",
                                 "(default the features)",
                                 "--intermediate N",
                                 "(default 4 x hidden)",
                                 "--layers N",
                                 "--activation NAME",
                                 "clamped_swiglu",
                                 "(default gelu)",
                                 "--norm NAME",
                                 "(default layernorm)",
                                 "--epochs N",
                                 "(default 20)",
                                 "--batch-size N",
                                 "(default 64)",
                                 "--optimizer NAME",
                                 "(default adamw)",
                                 "--lr X",
                                 "(default 0.001)",
                                 "--weight-decay X",
                                 "(default 0.01 with adamw, 0 with sgd)",
                                 "--margin N",
                                 "(default 0)",
                                 "--amax-history-len N",
                                 "(default 1024)",
                                 "--amax-compute-algo NAME",
                                 "(default max)",
                                 "--fp8-format NAME",
                                 "(default hybrid; mxfp8 and block: e4m3)",
                                 "--dropout X",
                                 "--schedule NAME",
                                 "(default constant)",
                                 "--warmup-steps N",
                                 "--decay NAME",
                                 "(default all)",
                                 "--clip-grad-norm X",
                                 "(default no limit)",
                                 "--label-smoothing X",
                                 "--backward-override NAME",
                                 "(default none)",
                                 "--power-of-2-scale",
                                 "--no-kernel-2d-blocks",
                                 "--no-hadamard-transform",
                                 "--no-stochastic-rounding",
                                 "--remake-casts"}) {
    CHECK_MESSAGE(contains(help, part), part);
  }
}

TEST_CASE("tape8: wrong usage is status 2 and one line that says what is allowed") {
  check_refused("", 2, "one of train, gradcheck, bench, info: got none");
  check_refused("tarin", 2, "one of train, gradcheck, bench, info: got tarin");
  check_refused("train --recpie fp32", 2, "unknown argument --recpie: the options are --help,");
  check_refused("train digits", 2, "unknown argument digits");
  check_refused("info --verbose", 2, "unknown argument --verbose: the options are --help");
  check_refused(
      "train --recipe fp8", 2,
      "--recipe: must be one of fp32, bf16, delayed, current, mxfp8, block, nvfp4: got fp8");
  check_refused("train --compare fp32,fp16", 2,
                "must be one of fp32, bf16, delayed, current, mxfp8, block, nvfp4: got fp16");
  check_refused("train --activation swigul", 2, "must be one of gelu,");
  check_refused("train --norm batchnorm", 2, "must be one of layernorm, rmsnorm: got batchnorm");
  check_refused("train --optimizer adam", 2, "must be one of adamw, sgd: got adam");
  check_refused("train --fp8-format e5m2", 2, "must be one of hybrid, e4m3: got e5m2");
  check_refused("train --amax-compute-algo min", 2, "must be one of max, most_recent: got min");
  check_refused("train --schedule linear", 2, "must be one of constant, cosine: got linear");
  check_refused("train --decay none", 2, "must be one of all, matrices: got none");
  check_refused("train --recipe delayed --backward-override fp8", 2,
                "must be one of none, high_precision, dequantized: got fp8");
}

TEST_CASE("tape8: numbers out of range, or that are none") {
  for (const std::string option : {"--epochs", "--batch-size", "--hidden", "--intermediate",
                                   "--layers", "--threads", "--amax-history-len"}) {
    for (const std::string value : {"0", "-3", "many", "1.5", "99999999999999999999", "''"}) {
      check_refused("train " + option + " " + value, 2, option + ": must be a whole number");
    }
  }
  for (const std::string option : {"--lr", "--weight-decay"}) {
    for (const std::string value : {"-1", "nan", "inf", "fast", "1e99"}) {
      check_refused("train " + option + " " + value, 2, option + ": must be a finite number");
    }
  }
  for (const std::string option : {"--dropout", "--label-smoothing"}) {
    for (const std::string value : {"-0.1", "1", "nan", "half"}) {
      check_refused("train " + option + " " + value, 2,
                    option + ": must be a number from 0 to below 1: got " + value);
    }
  }
  for (const std::string value : {"0", "-1", "nan", "inf", "long"}) {
    check_refused("train --clip-grad-norm " + value, 2,
                  "--clip-grad-norm: must be a finite number above 0: got " + value);
  }
  check_refused("train --warmup-steps -1", 2, "--warmup-steps: must be a whole number");
  check_refused("train --margin 65", 2, "--margin: must be a whole number from -64 to 64: got 65");
  check_refused("train --seed -1", 2, "--seed: must be a whole number from 0 to");
  check_refused("train --seeds 1,x", 2, "--seeds: must be a whole number from 0 to");
  check_refused("train --epochs", 2, "--epochs");
}

TEST_CASE("tape8: options that do not go together") {
  check_refused("train --recipe fp32 --compare fp32,bf16", 2, "excludes");
  check_refused("train --seed 1 --seeds 1,2", 2, "excludes");
  check_refused("train --compare fp32,bf16,fp32", 2, "--compare: each may be given once");
  check_refused("train --seeds 1,2,1", 2, "--seeds: each may be given once: got 1,2,1");
  check_refused("train --compare fp32,bf16 --margin 1", 2,
                "--margin is for the recipes delayed: got");
  check_refused("train --fp8-format e4m3", 2,
                "--fp8-format is for the recipes delayed, current, mxfp8, block: got fp32");
  check_refused(
      "train --recipe bf16 --backward-override dequantized", 2,
      "--backward-override is for the recipes delayed, current, mxfp8, block, nvfp4: got bf16");
  check_refused("train --recipe delayed --power-of-2-scale", 2,
                "--power-of-2-scale is for the recipes current: got delayed");
  // 1437 examples make 15 batches of 100.
  check_refused("train --epochs 2 --batch-size 100 --warmup-steps 30", 2,
                "--warmup-steps must be below the run's 30 steps: got 30");
}

TEST_CASE("tape8: bad files are status 3 and one line that names them") {
  const TempDir dir;
  check_refused("train --data " + (dir.path() / "absent").string(), 3, "absent: no such directory");
  check_refused("train --data " + dir.path().string(), 3, dir.path().string());
  check_refused("train --log /dev/null/log", 3, "/dev/null/log: cannot be written");
  dir.write("train-images-idx3-ubyte", "not an IDX file");
  check_refused("train --data " + dir.path().string(), 3, "train-images-idx3-ubyte");
}

}  // namespace
}  // namespace tape8::test
