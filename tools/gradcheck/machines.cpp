#include "gradcheck/machines.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tape8::tools::gradcheck {
namespace {

/// What ops run on, put back as it was at the end.
class Machine {
 public:
  Machine(const std::string& isa, int threads) {
    set_cpu_isa(isa);
    set_num_threads(threads);
  }
  ~Machine() {
    set_cpu_isa(isa_before_);
    set_num_threads(threads_before_);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

 private:
  std::string isa_before_ = cpu_isa();
  int threads_before_ = num_threads();
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Output and gradients of the second of two passes, in which delayed scaling has scales.
std::vector<NamedTensor> results_of(const Subject& subject, const RunSettings& settings,
                                    const Device& device = {}) {
  Random random(subject.name(), settings.seed);
  const Program program = subject.make(random);
  std::vector<NamedTensor> results;
  Tensor dy;
  for (int pass = 0; pass < 2; ++pass) {
    results.clear();
    std::vector<Variable> variables;
    for (const Tensor& input : program.inputs) {
      const Tensor placed = input.to(device);
      variables.push_back(!placed.defined()            ? Variable{}
                          : is_compute(placed.dtype()) ? parameter(placed)
                                                       : Variable{placed});
    }
    Tape tape;
    const Variable y = program.function(variables);
    if (!dy.defined()) dy = random.values(y.shape(), y.dtype()).to(device);
    tape.backward(y, dy);
    results.push_back({"output", y.tensor()});
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (!variables[i] || !variables[i].grad()) continue;
      results.push_back({fmt::format("gradient of {}", program.names[i]), variables[i].grad()});
    }
  }
  return results;
}

std::span<const std::uint8_t> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::uint8_t*>(tensor.data()),
          static_cast<std::size_t>(tensor.nbytes())};
}

/// Fails with the share of bytes that differ as the error.
Comparison compare_bytes(const NamedTensor& expected, const NamedTensor& actual,
                         const std::string& where) {
  const Tensor wanted = expected.tensor.contiguous();
  const Tensor got = actual.tensor.contiguous();
  const std::span<const std::uint8_t> a = bytes_of(wanted);
  const std::span<const std::uint8_t> b = bytes_of(got);
  Comparison result{.name = actual.name};
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (different++ == 0) {
      result.element = static_cast<std::int64_t>(i) * 8 / bits(wanted.dtype());
    }
  }
  if (different == 0 && a.size() == b.size()) {
    result.message = fmt::format("{}: the same bytes {}", actual.name, where);
    return result;
  }
  result.verdict = Verdict::failed;
  result.error = static_cast<double>(different) / static_cast<double>(a.size());
  if (result.element >= 0) {
    const auto at = static_cast<std::size_t>(result.element);
    result.value = got.to_vector<double>()[at];
    result.reference = wanted.to_vector<double>()[at];
  }
  result.message =
      fmt::format("{}: {} of {} bytes differ {}: element {} is {:.9g}, with {} and 1 thread {:.9g}",
                  actual.name, different, a.size(), where, result.element, result.value, cpu_isa(),
                  result.reference);
  return result;
}

}  // namespace

Comparison compare_isas(const Subject& subject, const RunSettings& settings) {
  std::vector<NamedTensor> expected;
  Comparison last;
  for (const BackendInfo& isa : cpu_isas()) {
    if (!isa.available) continue;
    for (const int threads : {1, std::max(settings.threads, 2)}) {
      std::vector<NamedTensor> actual;
      {
        const Machine machine(isa.name, threads);
        actual = results_of(subject, settings);
      }
      if (expected.empty()) {
        expected = std::move(actual);
        continue;
      }
      for (std::size_t i = 0; i < expected.size(); ++i) {
        last = compare_bytes(expected[i], actual[i],
                             fmt::format("on {} with {} threads", isa.name, threads));
        if (last.verdict != Verdict::passed) return last;
      }
    }
  }
  return last;
}

Comparison compare_backends(const Subject& subject, const RunSettings& settings, Device other) {
  const std::vector<NamedTensor> expected = results_of(subject, settings);
  const std::vector<NamedTensor> actual = results_of(subject, settings, other);
  Comparison worst;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Comparison here = compare(expected[i].name, actual[i].tensor,
                                    {.values = expected[i].tensor.to_vector<double>(),
                                     .tolerance = tolerance(subject.precision, subject.dtype)});
    if (here.verdict != Verdict::passed) return here;
    if (i == 0 || here.error > worst.error) worst = here;
  }
  return worst;
}

}  // namespace tape8::tools::gradcheck
