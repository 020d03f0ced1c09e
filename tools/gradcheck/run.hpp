#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradcheck/subject.hpp"

namespace tape8::tools::gradcheck {

/// What a case shows.
enum class Kind {
  gradient,   ///< gradients by the tape are those of float64 central differences
  quantized,  ///< results of casts are those of float64 arithmetic on the same casts
  isa,        ///< instruction sets and thread counts give the same bytes
  backend,    ///< a device gives the CPU's results
};

std::string_view to_string(Kind kind);

/// A subject, what is to be shown of it and where its ops run. Its name is the subject's, with
/// "/isa" or the device's type behind it where machines are compared.
struct Case {
  const Subject* subject = nullptr;
  Kind kind = Kind::gradient;
  Device device = {};

  std::string name() const;
};

/// Every case of a device: of the CPU with instruction sets compared, else with the device and the
/// CPU compared.
std::vector<Case> make_cases(const Subjects& subjects, const Device& device = {});

struct RunSettings {
  std::uint64_t seed = 1;
  int threads = 2;
};

/// How a case went: the comparison that failed or came nearest to it. One that throws has failed.
struct CaseResult {
  Case what;
  Comparison worst;

  bool passed() const { return worst.verdict == Verdict::passed; }
  /// The error as a share of the tolerance; 0 for results that are the same.
  double ratio() const { return worst.error == 0.0 ? 0.0 : worst.error / worst.tolerance; }
};

CaseResult run_case(const Case& what, const RunSettings& settings);

}  // namespace tape8::tools::gradcheck
