#include "gradcheck/run.hpp"

#include <exception>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "gradcheck/machines.hpp"

namespace tape8::tools::gradcheck {
namespace {

/// The failed one, or the one that is nearest to failing.
Comparison worst_of(const GradcheckResult& result, const std::vector<Comparison>& casts) {
  Comparison worst = result.worst;
  for (const Comparison& cast : casts) {
    if (worst.verdict == Verdict::failed) break;
    if (cast.verdict != Verdict::passed) worst = cast;
  }
  return worst;
}

Comparison check_differences(const Program& program, const Subject& subject,
                             const RunSettings& settings) {
  return tape8::gradcheck(program.function, program.inputs,
                          {.seed = settings.seed,
                           .tolerance = tolerance(subject.precision, subject.dtype),
                           .names = program.names})
      .worst;
}

/// After a first pass, from which delayed scaling has its scales.
Comparison check_reference(const Program& program, const Subject& subject,
                           const RunSettings& settings) {
  std::vector<Comparison> casts;
  GradcheckResult result;
  const int passes = subject.recipe->quantizes() ? 2 : 1;
  for (int pass = 0; pass < passes; ++pass) {
    casts.clear();
    result =
        check_against(program.function, program.inputs,
                      [&](const Tensor& dy) { return program.reference(dy.to(Device{}), casts); },
                      {.seed = settings.seed, .names = program.names});
  }
  return worst_of(result, casts);
}

Comparison run(const Case& what, const RunSettings& settings) {
  const Subject& subject = *what.subject;
  switch (what.kind) {
    case Kind::gradient:
    case Kind::quantized: {
      Random random(subject.name(), settings.seed);
      Program program = subject.make(random);
      for (Tensor& input : program.inputs) input = input.to(what.device);
      return program.reference ? check_reference(program, subject, settings)
                               : check_differences(program, subject, settings);
    }
    case Kind::isa:
      return compare_isas(subject, settings);
    case Kind::backend:
      return compare_backends(subject, settings, what.device);
  }
  return {};
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::gradient:
      return "gradient";
    case Kind::quantized:
      return "quantized";
    case Kind::isa:
      return "isa";
    case Kind::backend:
      return "backend";
  }
  return "";
}

std::string Case::name() const {
  switch (kind) {
    case Kind::gradient:
    case Kind::quantized:
      return subject->name();
    case Kind::isa:
      return subject->name() + "/isa";
    case Kind::backend:
      return subject->name() + "/cuda";
  }
  return "";
}

std::vector<Case> make_cases(const Subjects& subjects, const Device& device) {
  const Kind machines = device.type == DeviceType::cpu ? Kind::isa : Kind::backend;
  std::vector<Case> cases;
  for (const Subject& subject : subjects) {
    if (subject.recipe->quantizes()) {
      cases.push_back({&subject, Kind::quantized, device});
    } else if (subject.differences) {
      cases.push_back({&subject, Kind::gradient, device});
    }
    cases.push_back({&subject, machines, device});
  }
  return cases;
}

CaseResult run_case(const Case& what, const RunSettings& settings) {
  try {
    return {what, run(what, settings)};
  } catch (const std::exception& error) {
    return {what,
            {.name = "exception",
             .verdict = Verdict::failed,
             .error = std::numeric_limits<double>::infinity(),
             .message = error.what()}};
  }
}

}  // namespace tape8::tools::gradcheck
