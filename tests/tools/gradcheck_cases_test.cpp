#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gradcheck/operands.hpp"
#include "gradcheck/ops.hpp"
#include "gradcheck/run.hpp"
#include "support/values.hpp"

// Faults are put into cases from outside: the machinery must find each.

namespace tape8::test {
namespace {

using tools::gradcheck::all_subjects;
using tools::gradcheck::Case;
using tools::gradcheck::CaseResult;
using tools::gradcheck::checked_cast;
using tools::gradcheck::Kind;
using tools::gradcheck::make_cases;
using tools::gradcheck::Matrix;
using tools::gradcheck::Program;
using tools::gradcheck::Random;
using tools::gradcheck::RecipeCase;
using tools::gradcheck::run_case;
using tools::gradcheck::Subject;
using tools::gradcheck::Subjects;

Subject subject_of(const std::string& name) {
  static const Subjects subjects = all_subjects();
  const auto found = std::find_if(subjects.begin(), subjects.end(),
                                  [&](const Subject& one) { return one.name() == name; });
  REQUIRE(found != subjects.end());
  return *found;
}

/// A subject whose function is replaced by what `change` makes of it.
using Change = std::function<Variable(const CheckedFunction& right, std::span<const Variable> in)>;

Subject changed(const std::string& name, const Change& change) {
  Subject subject = subject_of(name);
  subject.make = [right = subject.make, change](Random& random) {
    Program program = right(random);
    program.function = [change, function = program.function](std::span<const Variable> in) {
      return change(function, in);
    };
    return program;
  };
  return subject;
}

Kind kind_of(const Subject& subject) {
  return subject.recipe->quantizes() ? Kind::quantized : Kind::gradient;
}

CaseResult run(const Subject& subject, Kind kind) {
  return run_case({.subject = &subject, .kind = kind}, {});
}

void check_found(const Subject& subject, Kind kind, const std::string& part) {
  const CaseResult result = run(subject, kind);
  CAPTURE(subject.name());
  CAPTURE(result.worst.message);
  CHECK_FALSE(result.passed());
  CHECK(result.ratio() > 1.0);
  CHECK(result.worst.message.find(part) != std::string::npos);
}

Variable identity(const CheckedFunction& right, std::span<const Variable> in) { return right(in); }

std::vector<Variable> copied(std::span<const Variable> in) { return {in.begin(), in.end()}; }

/// Of each way to check: differences, and references of an op with and without a norm.
const std::array<std::string, 5> kNames{"dense/f32/high_precision/bias/33x17x9",
                                        "dense/f32/delayed/bias/33x17x9",
                                        "layernorm_dense/bf16/current/layernorm_bias/33x17x9",
                                        "layernorm_mlp/bf16/delayed/layernorm_swiglu_bias/5x17x9",
                                        "activation/f16/current/swiglu/3x300"};

TEST_CASE("gradcheck cases: those that the tests spoil pass when they are not spoilt") {
  for (const std::string& name : kNames) {
    const Subject subject = changed(name, identity);
    const CaseResult result = run(subject, kind_of(subject));
    CAPTURE(result.worst.message);
    CHECK(result.passed());
    CHECK(run(subject, Kind::isa).passed());
  }
}

TEST_CASE("gradcheck cases: zeros, twice the result, a NaN") {
  for (const std::string& name : kNames) {
    const Kind kind = kind_of(subject_of(name));
    // Differences of a function of zeros are zeros as well.
    if (kind == Kind::quantized) {
      check_found(changed(name, [](const auto& right, auto in) { return right(in) * 0.0; }), kind,
                  "it is zero throughout");
      check_found(changed(name, [](const auto& right, auto in) { return right(in) * 2.0; }), kind,
                  "it is 2 times what it should be");
    }
    check_found(changed(name,
                        [](const auto& right, auto in) {
                          const Variable y = right(in);
                          Tensor nan = Tensor::zeros(y.shape(), y.dtype());
                          nan.slice(0, 0, 1).fill(std::numeric_limits<double>::quiet_NaN());
                          return y + nan;
                        }),
                kind, "is nan");
  }
}

TEST_CASE("gradcheck cases: a gradient that does not arrive") {
  for (const std::string& name : kNames) {
    const Kind kind = kind_of(subject_of(name));
    const std::size_t inputs = name.starts_with("activation") ? 1 : 3;
    for (std::size_t dropped = 0; dropped < inputs; ++dropped) {
      if (name.starts_with("layernorm_mlp") && dropped == 2) continue;
      check_found(changed(name,
                          [dropped](const auto& right, auto in) {
                            std::vector<Variable> inputs_now = copied(in);
                            inputs_now[dropped] = Variable{in[dropped].tensor()};
                            return right(inputs_now);
                          }),
                  kind, "no gradient arrived");
    }
  }
}

TEST_CASE("gradcheck cases: a gradient that is off by 2") {
  for (const std::string& name : kNames) {
    // Half of the input is a constant: the value stands, the gradient is half of what it was.
    check_found(changed(name,
                        [](const auto& right, auto in) {
                          std::vector<Variable> inputs_now = copied(in);
                          inputs_now[0] = in[0] * 0.5 + Variable{(in[0] * 0.5).tensor()};
                          return right(inputs_now);
                        }),
                kind_of(subject_of(name)), "it is 0.5 times what it should be");
  }
}

TEST_CASE("gradcheck cases: FP8 that ran in high precision") {
  check_found(changed("dense/f32/delayed/bias/33x17x9",
                      [](const auto&, auto in) { return dense(in[0], in[1], in[2]); }),
              Kind::quantized, "nothing was quantized");
  check_found(changed("dense/bf16/current/bias/33x17x9",
                      [](const auto&, auto in) { return dense(in[0], in[1], in[2]); }),
              Kind::quantized, "exceeds");
  check_found(changed("layernorm_dense/f32/current/layernorm_bias/33x17x9",
                      [](const auto&, auto in) {
                        return layernorm_dense(in[0], in[1], in[2], in[3], in[4]);
                      }),
              Kind::quantized, "nothing was quantized");
  check_found(changed("activation/f32/delayed/swiglu/3x300",
                      [](const auto&, auto in) { return activation(in[0], swiglu); }),
              Kind::quantized, "nothing was quantized");
}

TEST_CASE("gradcheck cases: casts in another format, with another scale, or not done") {
  const Tensor x = random_tensor({5, 40}, 1);
  const Matrix exact{5, 40, values_of(x)};
  const auto check_cast = [&](const QuantizedPart& part, DType format) {
    std::vector<Comparison> casts;
    (void)checked_cast("x", part, Usage::rowwise, exact, format, false, casts);
    REQUIRE(casts.size() == 1);
    return casts.front();
  };
  const QuantizedTensor cast = make_quantizer(CurrentScaling{}, TensorRole::x).quantize(x);
  CHECK(check_cast(cast.rowwise(), DType::e4m3).verdict == Verdict::passed);

  const Comparison other = check_cast(cast.rowwise(), DType::e5m2);
  CHECK(other.verdict == Verdict::failed);
  CHECK(other.message == "x: is stored in e4m3, should be in e5m2");
  const Comparison none = check_cast(QuantizedTensor(x).rowwise(), DType::e4m3);
  CHECK(none.verdict == Verdict::failed);
  CHECK(none.message == "x: is stored in f32, should be in e4m3");

  QuantizedPart doubled = cast.rowwise();
  doubled.scale_inv = Tensor::from({2.0F * doubled.scale_inv.item<float>()}, {});
  const Comparison scaled = check_cast(doubled, DType::e4m3);
  CHECK(scaled.verdict == Verdict::failed);
  CHECK(scaled.message.find("it is 2 times what it should be") != std::string::npos);
}

TEST_CASE("gradcheck cases: results that depend on the instruction set or the threads") {
  const std::string name = "dense/bf16/delayed/bias/33x17x9";
  const std::string fastest = cpu_isa();
  if (fastest != "portable") {
    check_found(changed(name,
                        [](const auto& right, auto in) {
                          const Variable y = right(in);
                          return cpu_isa() == "portable" ? y * (1.0 + 0x1p-7) : y;
                        }),
                Kind::isa, "bytes differ on portable with 1 threads");
  }
  check_found(changed(name,
                      [](const auto& right, auto in) {
                        std::vector<Variable> inputs = copied(in);
                        if (num_threads() == 2) inputs[2] = in[2] * 2.0;
                        return right(inputs);
                      }),
              Kind::isa, "output: ");
  const int threads = num_threads();
  CHECK(run(subject_of(name), Kind::isa).passed());
  CHECK(cpu_isa() == fastest);
  CHECK(num_threads() == threads);
}

TEST_CASE("gradcheck cases: one that throws has failed") {
  check_found(
      changed("dense/f32/delayed/bias/33x17x9",
              [](const auto&, auto) -> Variable { throw std::runtime_error("as it does"); }),
      Kind::quantized, "as it does");
}

TEST_CASE("gradcheck cases: every op, dtype and recipe, each name once") {
  const Subjects subjects = all_subjects();
  const std::vector<Case> cases = make_cases(subjects);
  CHECK(cases.size() >= 3000);
  std::set<std::string> names, ops, recipes;
  for (const Case& one : cases) names.insert(one.name());
  for (const Subject& subject : subjects) {
    ops.insert(subject.op);
    recipes.insert(subject.recipe->name);
  }
  CHECK(names.size() == cases.size());
  CHECK(ops == std::set<std::string>{"activation", "add", "cast", "dense", "dropout", "layernorm",
                                     "layernorm_dense", "layernorm_mlp", "matmul", "mean",
                                     "mse_loss", "mul", "reshape", "scale", "softmax_cross_entropy",
                                     "sub", "sum", "transpose"});
  for (const std::string recipe : {"high_precision", "delayed", "current", "mxfp8", "block",
                                   "nvfp4", "delayed_dequantized", "mxfp8_high_precision"}) {
    CHECK(recipes.count(recipe) == 1);
  }
}

}  // namespace
}  // namespace tape8::test
