#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools/trained.hpp"

namespace tape8::test {
namespace {

using nlohmann::json;

/// The summary of one run.
json run(const std::string& arguments) {
  CAPTURE(arguments);
  const Trained trained = train(arguments);
  INFO(trained.result.err);
  REQUIRE(trained.result.status == 0);
  REQUIRE(summaries(trained).size() == 1);
  json summary = summaries(trained)[0];
  summary.erase("step_ms");
  return summary;
}

// A learning rate of 0 leaves the model as the seed makes it, so that losses show the forward
// alone.

TEST_CASE("tape8 train: dropout and label smoothing are for training alone") {
  const json plain = run("--epochs 1 --lr 0");
  CHECK(run("--epochs 1 --lr 0 --dropout 0 --label-smoothing 0") == plain);
  for (const std::string option : {"--dropout 0.3", "--label-smoothing 0.1"}) {
    CAPTURE(option);
    const json changed = run("--epochs 1 --lr 0 " + option);
    CHECK(changed.at("test_loss") == plain.at("test_loss"));
    CHECK(changed.at("train_loss") != plain.at("train_loss"));
  }
  const std::string arguments = "--epochs 2 --layers 2 --dropout 0.2 --threads ";
  CHECK(run(arguments + "1") == run(arguments + "2"));
}

TEST_CASE("tape8 train: the learning rate follows the schedule, step by step") {
  // One step an epoch.
  const std::string steps = "--batch-size 2000 --optimizer sgd --seed 3 ";
  const auto loss_after = [&](const std::string& options) {
    return run(steps + options).at("test_loss").get<double>();
  };
  const Trained warmed = train(steps + "--epochs 4 --lr 0.5 --warmup-steps 2");
  REQUIRE(warmed.events.size() == 4 + 1);
  // The first step is half way up.
  CHECK(warmed.events[0].at("test_loss") == loss_after("--epochs 1 --lr 0.25"));
  CHECK(warmed.events[3].at("test_loss") != loss_after("--epochs 4 --lr 0.5"));
  // A cosine begins at the peak, and has moved by the second step.
  const Trained constant = train(steps + "--epochs 3 --lr 0.5");
  const Trained cosine = train(steps + "--epochs 3 --lr 0.5 --schedule cosine");
  REQUIRE(cosine.events.size() == constant.events.size());
  CHECK(cosine.events[0].at("test_loss") == constant.events[0].at("test_loss"));
  CHECK(cosine.events[1].at("test_loss") != constant.events[1].at("test_loss"));
}

TEST_CASE("tape8 train: gradients are clipped above the limit only") {
  const std::string arguments = "--epochs 1 --optimizer sgd --lr 0.1 ";
  const json plain = run(arguments);
  CHECK(run(arguments + "--clip-grad-norm 1e30") == plain);
  // Nothing moves a model whose gradients are next to nothing.
  const json still = run("--epochs 1 --optimizer sgd --lr 0");
  const json clipped = run(arguments + "--clip-grad-norm 1e-30");
  CHECK(clipped.at("test_loss") == still.at("test_loss"));
  CHECK(plain.at("test_loss") != still.at("test_loss"));
}

TEST_CASE("tape8 train: what decays") {
  const std::string arguments = "--epochs 2 --weight-decay ";
  CHECK(run(arguments + "0.1 --decay all") == run(arguments + "0.1"));
  CHECK(run(arguments + "0.1 --decay matrices") != run(arguments + "0.1"));
  CHECK(run(arguments + "0 --decay matrices") == run(arguments + "0"));
}

TEST_CASE("tape8 train: a backward override leaves the forward as it is") {
  for (const std::string recipe : {"delayed", "current"}) {
    CAPTURE(recipe);
    const std::string fp8 = "--epochs 1 --recipe " + recipe;
    const json none = run(fp8);
    CHECK(run(fp8 + " --backward-override none") == none);
    for (const std::string which : {"high_precision", "dequantized"}) {
      CAPTURE(which);
      const std::string changed = fp8 + " --backward-override " + which;
      CHECK(run(changed).at("test_loss") != none.at("test_loss"));
      CHECK(run(changed + " --lr 0").at("train_loss") == run(fp8 + " --lr 0").at("train_loss"));
      const auto bytes = [](const json& summary) {
        return summary.at("saved_for_backward_bytes").get<std::int64_t>();
      };
      // What is computed again in high precision is not kept.
      if (which == "high_precision") CHECK(bytes(run(changed)) < bytes(none));
    }
  }
}

TEST_CASE("tape8 train: scales that are powers of 2 round differently") {
  CHECK(run("--epochs 1 --lr 0 --recipe current --power-of-2-scale").at("test_loss") !=
        run("--epochs 1 --lr 0 --recipe current").at("test_loss"));
}

TEST_CASE("tape8 train: each part of nvfp4 changes the result when it is off") {
  const std::string nvfp4 = "--epochs 1 --recipe nvfp4";
  const json whole = run(nvfp4);
  for (const std::string off :
       {" --no-kernel-2d-blocks", " --no-hadamard-transform", " --no-stochastic-rounding"}) {
    CAPTURE(off);
    CHECK(run(nvfp4 + off).at("test_loss") != whole.at("test_loss"));
  }
}

TEST_CASE("tape8 train: remade casts keep fewer bytes and change no result") {
  for (const std::string recipe : {"delayed", "current", "mxfp8", "block", "nvfp4"}) {
    CAPTURE(recipe);
    json kept = run("--epochs 1 --recipe " + recipe);
    json remade = run("--epochs 1 --remake-casts --recipe " + recipe);
    const std::string bytes = "saved_for_backward_bytes";
    CHECK(remade.at(bytes).get<std::int64_t>() < kept.at(bytes).get<std::int64_t>());
    remade[bytes] = kept[bytes];
    CHECK(remade == kept);
  }
}

}  // namespace
}  // namespace tape8::test
